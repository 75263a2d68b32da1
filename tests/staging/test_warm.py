"""Reading into the page cache: all of it, checked, and only if it fits."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from dataprep.errors import StagingError
from dataprep.staging import stage as module
from dataprep.staging.copying import Watch, read_files
from dataprep.staging.inventory import SourceFile
from dataprep.staging.request import StageRequest


@pytest.fixture
def files(tmp_path: Path) -> list[SourceFile]:
    listed = []
    for name, size in (("a", 0), ("b", 10), ("c", (1 << 22) + 1)):
        data = os.urandom(size)
        (tmp_path / name).write_bytes(data)
        listed.append(SourceFile(name, size, hashlib.sha256(data).hexdigest()))
    return listed


def warm(source: Path, files: list[SourceFile], **options: Any) -> int:
    watch = options.pop("watch", Watch())
    defaults = {"verify": "copy", "streams": 2}
    read_files(source, files, watch=watch, **{**defaults, **options})
    return watch.done


@pytest.mark.parametrize("verify", ["none", "copy"])
def test_everything_is_read_once(tmp_path: Path, files: list[SourceFile], verify: str) -> None:
    assert warm(tmp_path, files, verify=verify) == sum(file.bytes for file in files)


def test_a_sparse_file_has_the_hash_of_its_zeros(tmp_path: Path) -> None:
    with (tmp_path / "a").open("wb") as file:
        file.truncate((1 << 24) + 1)
    data = (tmp_path / "a").read_bytes()
    listed = SourceFile("a", len(data), hashlib.sha256(data).hexdigest())
    assert warm(tmp_path, [listed]) == len(data)


def test_a_flipped_byte_is_found_unless_nothing_is_verified(
    tmp_path: Path, files: list[SourceFile]
) -> None:
    data = bytearray((tmp_path / "c").read_bytes())
    data[1 << 22] ^= 1
    (tmp_path / "c").write_bytes(data)
    with pytest.raises(StagingError, match=f"c has SHA-256 .*run dataprep verify {tmp_path}"):
        warm(tmp_path, files)
    warm(tmp_path, files, verify="none")


def test_more_than_the_memory_is_refused_before_a_byte_is_read(
    tmp_path: Path, files: list[SourceFile], outside: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "available", lambda: sum(file.bytes for file in files) - 1)
    reporter = Mock(spec=["line"])  # is told of no byte
    with pytest.raises(StagingError, match=r"4\.2 MB do not fit into the 4\.2 MB of memory"):
        module.warm(StageRequest(tmp_path), reporter)


def test_the_failure_of_another_node_stops_it(tmp_path: Path, files: list[SourceFile]) -> None:
    watch = Watch()
    watch.stop(StagingError("n7: the source vanished"))
    with pytest.raises(StagingError, match="n7: the source vanished"):
        warm(tmp_path, files, watch=watch)
