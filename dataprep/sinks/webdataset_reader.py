"""Reads WebDataset archives: ours by their index, anybody's by walking through them."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from dataprep.errors import SinkError
from dataprep.sinks import webdataset_sample
from dataprep.sinks.base import DatasetInfo, ShardReader
from dataprep.sinks.example import Example
from dataprep.sinks.tar_framing import BLOCK, RECORD, Member, read_member, read_members

_FIRST_LINE = re.compile(rb"v1\.2 ([0-9]{1,18})\n")
_INDEX_LINE = re.compile(rb"\S+ ([0-9]{1,18}) [0-9]{1,18} \S.*\n")
_METADATA = re.compile(rb"__[^/]*__(/|$)")  # what the webdataset library passes over
_STREAM_BUFFER = 1 << 20


@dataclass(slots=True)
class _Sample:
    """Adjacent members of one stem, and the data of those that were wanted."""

    stem: bytes
    start: int
    members: list[tuple[bytes, Member]] = field(default_factory=list)
    parts: dict[str, bytes] = field(default_factory=dict)

    def add(self, extension: bytes, member: Member, file: BinaryIO, wanted: frozenset[str]) -> None:
        """Take a member in, and its data if its extension is wanted."""
        self.members.append((extension, member))
        part = _text(extension).lower()
        if part in wanted:
            if part in self.parts:
                raise SinkError(f"it has two parts .{part}")
            self.parts[part] = read_member(file, member)

    def index_line(self) -> bytes:
        """As ``wds2idx`` writes it."""
        return b" ".join(
            b"%s %d %d %s" % (extension, member.offset, member.size, member.name)
            for extension, member in self.members
        )


class WebDatasetReader(ShardReader):
    """Reads one shard, of ours or of other tools; walks through the archive if the index is absent.

    Memory: 8 bytes a sample for its offset.
    """

    def __init__(self, paths: Sequence[Path], info: DatasetInfo) -> None:
        self._path = paths[0]
        self._index_path = paths[1] if len(paths) > 1 else None
        self._info = info
        # Two handles, so that a look at one sample does not throw the big buffer away.
        self._file = self._path.open("rb")
        self._stream = self._path.open("rb", buffering=_STREAM_BUFFER)
        self._index = self._index_path.open("rb") if self._index_path else None
        try:
            self._size = self._file.seek(0, 2)
            self._starts = self._load(self._index) if self._index else self._scan()
        except BaseException:
            self.close()
            raise

    def __len__(self) -> int:
        """How many samples the index, or else the archive, has."""
        return len(self._starts)

    def __getitem__(self, number: int) -> Example:
        """Sample ``number``, found through the index."""
        if not 0 <= number < len(self):
            raise IndexError(f"{self._path} has {len(self)} samples, not one numbered {number}")
        start = self._starts[number]
        sample = next(self._samples(self._file, start, webdataset_sample.PARTS, number), None)
        if sample is None or sample.start != start:
            raise self._damaged(number, start, "no sample begins there")
        return self._decode(number, sample)

    def __iter__(self) -> Iterator[Example]:
        """Every sample in order; the index must be the one that ``wds2idx`` would write."""
        line_at = number = 0
        if self._index is not None:
            self._index.seek(0)
            line_at = len(self._index.readline())
        for sample in self._samples(self._stream, 0, webdataset_sample.PARTS):
            example = self._decode(number, sample)
            if self._index is not None:
                self._index.seek(line_at)  # handed out examples may have moved it
                line = self._index.readline()
                line_at += len(line)
                if line != sample.index_line() + b"\n":
                    raise SinkError(
                        f"{self._index_path}: line {number + 2} is not that of sample {number} of "
                        f"{self._path}; make the shard again"
                    )
            yield example
            number += 1
        if number != len(self):
            raise SinkError(
                f"{self._path}: has {number} samples, {self._index_path or 'it once'} has "
                f"{len(self)}; make the shard again"
            )

    def keys(self) -> Iterator[str]:
        """The keys, from the samples' ``.json`` without the images."""
        for number, sample in enumerate(self._samples(self._stream, 0, frozenset({"json"}))):
            fields = self._own_fields(number, sample)
            yield fields["key"] if fields else _text(sample.stem)

    def close(self) -> None:
        """Close the files."""
        self._file.close()
        self._stream.close()
        if self._index is not None:
            self._index.close()

    def _decode(self, number: int, sample: _Sample) -> Example:
        try:
            return webdataset_sample.decode(_text(sample.stem), sample.parts, self._info)
        except SinkError as error:
            raise self._damaged(number, sample.start, error) from error

    def _own_fields(self, number: int, sample: _Sample) -> dict[str, Any] | None:
        try:
            return webdataset_sample.own_fields(sample.parts.get("json"))
        except SinkError as error:
            raise self._damaged(number, sample.start, error) from error

    def _samples(
        self, file: BinaryIO, start: int, wanted: frozenset[str], number: int = 0
    ) -> Iterator[_Sample]:
        """Samples from offset ``start`` on, which is number ``number``'s, with data of parts."""
        sample: _Sample | None = None
        at = start
        try:
            for member in read_members(file, start, self._size):
                at = member.start
                stem, extension = _split(member.name)
                if not stem:
                    continue
                if sample is None or sample.stem != stem:
                    if sample is not None:
                        yield sample
                        number += 1
                    sample = _Sample(stem, member.start)
                sample.add(extension, member, file, wanted)
        except SinkError as error:
            raise self._damaged(number, at, error) from error
        if sample is not None:
            yield sample

    def _scan(self) -> array[int]:
        """Where the samples start, by walking through the archive."""
        starts = array("Q", (found.start for found in self._samples(self._file, 0, frozenset())))
        first = next(self._samples(self._file, 0, frozenset({"json"})), None)
        if first is not None and self._own_fields(0, first):
            self._check_size()
        return starts

    def _check_size(self) -> None:
        """Ours fill the last 10240 bytes; some of other tools do not."""
        if self._size == 0 or self._size % RECORD:
            raise SinkError(
                f"{self._path}: has {self._size} bytes, expected a multiple of {RECORD}; "
                "make the shard again"
            )

    def _load(self, index: BinaryIO) -> array[int]:
        """Where the samples start, by the index."""
        self._check_size()
        match = _FIRST_LINE.fullmatch(index.readline())
        if not match:
            raise SinkError(f"{self._index_path}: does not begin with 'v1.2 <samples>'")
        starts = array("Q")
        for number, line in enumerate(index, start=2):
            match_line = _INDEX_LINE.fullmatch(line)
            start = int(match_line[1]) - BLOCK if match_line else -1
            if not (starts[-1] if starts else -1) < start < self._size:
                raise SinkError(
                    f"{self._index_path}: line {number} is not '<extension> <offset> <size> "
                    "<name> ...', or its offset is out of order; make the shard again"
                )
            starts.append(start)
        if len(starts) != int(match[1]):
            raise SinkError(
                f"{self._index_path}: has {len(starts)} samples, but says {int(match[1])}; "
                "make the shard again"
            )
        return starts

    def _damaged(self, number: int, offset: int, error: object) -> SinkError:
        return SinkError(
            f"{self._path}: record {number} at byte {offset}: {error}; make the shard again"
        )


def _split(name: bytes) -> tuple[bytes, bytes]:
    """Stem and extension; no stem for what readers of this format pass over."""
    directory, slash, last = name.rpartition(b"/")
    base, dot, extension = last.partition(b".")
    if not base or not dot or _METADATA.match(name):
        return b"", b""
    return directory + slash + base, extension


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")
