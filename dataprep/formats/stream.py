"""Formats that are a file of records one behind another: written through, read by offset."""

from __future__ import annotations

import os
from abc import abstractmethod
from array import array
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from typing_extensions import override

from dataprep.errors import SinkError
from dataprep.formats.base import ShardReader, ShardWriter, WrittenFile
from dataprep.formats.example import DatasetInfo, Example
from dataprep.formats.hashed_file import HashedFile
from dataprep.system.regular_files import open_regular


class StreamWriter(ShardWriter):
    """Writes one file, or several side by side.

    Args:
        paths: must not exist.
    """

    def __init__(self, paths: Sequence[Path], info: DatasetInfo) -> None:
        super().__init__(info)
        self.files: list[HashedFile] = []
        try:
            for path in paths:
                self.files.append(HashedFile(path))
        except BaseException:
            self.abandon()
            raise

    def close(self) -> Sequence[WrittenFile]:
        """Finish the files."""
        return [file.finish() for file in self.files]

    def abandon(self) -> None:
        """Give the files up."""
        for file in self.files:
            file.abandon()


class StreamReader(ShardReader):
    """Reads each record at once, at the offset that an index or a walk over the file gives.

    Unbuffered: Python's buffer is as large as a stripe on Lustre, and the system reads ahead.

    Args:
        paths: the data, then whatever sidecars there are.

    Raises:
        SinkError: the index does not fit the file, or is damaged.
    """

    def __init__(self, paths: Sequence[Path], info: DatasetInfo) -> None:
        super().__init__(paths[0], info)
        self._file = open_regular(paths[0], buffering=0)
        with self.opening("index" if len(paths) > 1 else "structure"):
            self.opened.enter_context(self._file)
            self.size = os.fstat(self._file.fileno()).st_size
            self._offsets = array("Q", self.offsets(paths[1:]))
            if self._offsets[0] or any(one >= two for one, two in pairwise(self._offsets)):
                raise SinkError(f"the records do not fill the {self.size} bytes of the file")

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def read(self, number: int) -> Example:
        """One record, in one read."""
        return self.decode(number, self.record(number))

    def record(self, number: int) -> bytes:
        """The bytes of one record, framing included."""
        return self.pread(*self.span(number))

    def span(self, number: int) -> tuple[int, int]:
        """Where a record begins, and how many bytes it has, framing included."""
        start = self._offsets[number]
        return start, self._offsets[number + 1] - start

    @override
    def will_need(self, number: int) -> None:
        start, size = self.span(number)
        os.posix_fadvise(self._file.fileno(), start, size, os.POSIX_FADV_WILLNEED)

    def pread(self, offset: int, size: int) -> bytes:
        """So many bytes, or as many as there are."""
        return os.pread(self._file.fileno(), size, offset)

    @abstractmethod
    def offsets(self, sidecars: Sequence[Path]) -> Sequence[int]:
        """Where each record starts, 0 first, and where the last one ends."""

    @abstractmethod
    def decode(self, number: int, data: bytes) -> Example:
        """The example of a record's bytes; raises as `ShardReader.read`."""
