"""A file that knows its own hash."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep.formats import hashed_file
from dataprep.formats.hashed_file import HashedFile


def check(path: Path, pieces: Sequence[bytes]) -> None:
    file = HashedFile(path)
    for piece in pieces:
        file.write(piece, b"", piece)
    written, expected = file.finish(), b"".join(piece * 2 for piece in pieces)
    assert path.read_bytes() == expected
    assert (written.bytes, written.sha256) == (file.size, hashlib.sha256(expected).hexdigest())


@given(st.lists(st.binary(max_size=9), max_size=9), st.integers(1, 40), st.integers(1, 4))
def test_pieces_come_back_in_order(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], buffer: int, most: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hashed_file, "_BUFFER", buffer)
        patch.setattr(hashed_file, "_MOST_PIECES", most)
        check(tmp_path_factory.mktemp("file") / "x", pieces)


def test_what_one_write_does_not_take_the_next_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a disk that is nearly full, or when a signal comes."""
    whole = os.writev
    monkeypatch.setattr(os, "writev", lambda file, pieces: whole(file, [pieces[0][:3]]))
    check(tmp_path / "x", [b"12345", b"678"])


def test_more_pieces_than_the_system_takes_in_one_write(tmp_path: Path) -> None:
    check(tmp_path / "x", [b"%d" % number for number in range(3000)])
