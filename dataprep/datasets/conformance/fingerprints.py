"""Conformance: whether `Dataset.fingerprint` notices what `Dataset.scan` would read anew.

If it does not, an index that was made of earlier files is taken for good, and nobody is told.
"""

# ruff: noqa: S101, D102 - these are tests: asserts, and names that say what they are

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest

from dataprep.archives.reading import close_archives
from dataprep.datasets.base import Dataset, ScanUnit
from dataprep.datasets.conformance.scanning import made_again, scan_all
from dataprep.errors import SourceError
from dataprep.index import Scanned

_SECOND = 1_000_000_000


class FingerprintTests:
    """Fingerprints."""

    def test_fingerprints_stay_while_nothing_changes(self, dataset: Dataset, raw: Path) -> None:
        units = dataset.find(raw, None).units
        before = [dataset.fingerprint(raw, unit) for unit in units]
        assert all(isinstance(fingerprint, str) and fingerprint for fingerprint in before)
        scan_all(dataset, raw)
        again = made_again(dataset)
        assert [again.fingerprint(raw, unit) for unit in units] == before

    def test_a_touched_container_changes_the_fingerprint(self, dataset: Dataset, raw: Path) -> None:
        for unit in _with_containers(dataset, raw):
            if not _holds_images(dataset.scan(raw, unit)):
                continue  # a list may be known by its content
            before = dataset.fingerprint(raw, unit)
            with _touched(raw / unit.container):
                assert dataset.fingerprint(raw, unit) != before, unit.container
            assert dataset.fingerprint(raw, unit) == before

    def test_a_file_that_scanning_reads_changes_the_fingerprint(
        self, dataset: Dataset, raw: Path, tmp_path: Path
    ) -> None:
        copy = tmp_path / "copy"  # at another place, where nothing that was read is remembered
        shutil.copytree(raw, copy, symlinks=True)
        for unit in dataset.find(copy, None).units:
            close_archives()
            other = made_again(dataset)
            with _opened_below(copy) as opened:
                scanned = other.scan(copy, unit)
            before = other.fingerprint(copy, unit)
            known = {copy / unit.container} if _holds_images(scanned) else set()
            for path in sorted(opened - known):
                content = path.read_bytes()
                path.write_bytes(content + b"\n")
                assert other.fingerprint(copy, unit) != before, (
                    f"scan reads {path.relative_to(copy)}, but its change goes unnoticed"
                )
                path.write_bytes(content)
                before = other.fingerprint(copy, unit)

    def test_a_container_that_is_gone_is_an_error(self, dataset: Dataset, raw: Path) -> None:
        for unit in _with_containers(dataset, raw):
            container = raw / unit.container
            away = container.with_name(f"{container.name}.away")
            close_archives()
            container.rename(away)
            try:
                for attempt in (dataset.fingerprint, dataset.scan):
                    with pytest.raises(SourceError) as caught:
                        attempt(raw, unit)
                    assert str(caught.value).isprintable(), "a message is one printable line"
            finally:
                away.rename(container)


def _holds_images(scanned: Scanned) -> bool:
    return bool(scanned.members or any(scanned.rows.values()))


def _with_containers(dataset: Dataset, raw: Path) -> Iterator[ScanUnit]:
    """The units whose container is in the raw directory, and not that directory itself."""
    for unit in dataset.find(raw, None).units:
        if unit.container not in ("", ".") and (raw / unit.container).exists():
            yield unit


@contextmanager
def _touched(path: Path) -> Iterator[None]:
    """A file or directory with another modification time, for a while."""
    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + _SECOND))
    try:
        yield
    finally:
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


class _Opened:
    """What is opened, while somebody wants to know: an audit hook stays for ever."""

    hooked: ClassVar[bool] = False
    paths: ClassVar[list[Any] | None] = None

    @classmethod
    def hook(cls, event: str, arguments: tuple[Any, ...]) -> None:
        """Note a path; also those of `os.open` and of `Path.open`, however they get there."""
        if event == "open" and cls.paths is not None:
            cls.paths.append(arguments[0])


@contextmanager
def _opened_below(directory: Path) -> Iterator[set[Path]]:
    """Which files in a directory Python code opens; known when the block is left."""
    if not _Opened.hooked:
        sys.addaudithook(_Opened.hook)
        _Opened.hooked = True
    opened: set[Path] = set()
    paths: list[Any] = []
    _Opened.paths = paths
    try:
        yield opened
    finally:
        _Opened.paths = None
    for file in paths:
        if not isinstance(file, int):
            path = Path(os.path.abspath(os.fsdecode(file)))  # noqa: PTH100 - links stay
            if directory in path.parents and path.is_file():
                opened.add(path)
