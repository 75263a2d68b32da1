"""What another process yields arrives, whatever else it prints, and within its memory."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from dataprep.errors import SinkError
from dataprep.formats.subprocess_reader import in_child


def test_what_is_printed_there_is_no_answer() -> None:
    assert [*in_child(Path("file"), map, os.system, ["echo printed"] * 2)] == [0, 0]


def test_what_does_not_answer_is_named() -> None:
    with pytest.raises(SinkError, match=r"^file: the process that read it did not answer for 1 s"):
        [*in_child(Path("file"), map, time.sleep, [600], seconds=0.7)]


def test_its_memory_may_be_bounded() -> None:
    for memory in (0, 1 << 30):
        (found,) = in_child(Path("file"), map, bytes, [200_000_000], memory=memory)
        assert len(found) == 200_000_000
    with pytest.raises(SinkError, match="more memory is needed to read it than there is"):
        [*in_child(Path("file"), map, bytes, [200_000_000], memory=150_000_000)]
