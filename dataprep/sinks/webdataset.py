"""WebDataset: tar archives whose adjacent members of one stem are a sample.

``train/train-00000-of-00004.tar`` (or flat; numbered even if it is the only one), and
``index/train/train-00000-of-00004.idx``, which is byte for byte what DALI's ``wds2idx`` writes:
``v1.2 <samples>``, then a line a sample of ``<extension> <offset> <size> <name>`` for each part.
(``wds2idx`` fails on an archive without samples; ours says ``v1.2 0``.) `webdataset_sample` says
what the parts are and what they are called. Archives are plain POSIX ustar with nothing in them
that depends on the machine: mode 0444, time 0, owner 0, as ``webdataset.TarWriter`` lays them out.

Every header has a checksum; the data has none. Noticed are damaged headers, padding that is not
zero, an archive cut anywhere, parts that contradict each other, and an index that is not the
archive's. Not noticed are flipped bits in an image: for these there is the SHA-256 in the manifest.
"""

from __future__ import annotations

import re
import tarfile
import zlib
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, ClassVar

from dataprep.errors import SinkError
from dataprep.sinks import webdataset_sample
from dataprep.sinks.annotations import import_reader, naming
from dataprep.sinks.base import (
    DatasetInfo,
    Layout,
    ShardName,
    ShardReader,
    ShardWriter,
    Sink,
    WrittenFile,
)
from dataprep.sinks.example import Example
from dataprep.sinks.hashed_file import HashedFile
from dataprep.sinks.webdataset_sample import NAME_LIMIT, PREFIX_LIMIT, Stems

BLOCK = tarfile.BLOCKSIZE
RECORD = tarfile.RECORDSIZE  # what an archive of GNU tar or Python is padded to
_OVERHEAD = 3 * BLOCK + 2 * BLOCK + BLOCK // 2 + 150  # headers, .cls, .json, padding, index
_SIZE_LIMIT = 8**11
_FIRST_LINE = re.compile(rb"v1\.2 ([0-9]{1,18})\n")
_INDEX_LINE = re.compile(rb"\S+ ([0-9]{1,18}) [0-9]{1,18} \S.*\n")
_METADATA = re.compile(r"__[^/]*__(/|$)")  # what the webdataset library passes over
_STREAM_BUFFER = 1 << 20


def _plain_header() -> bytes:
    member = tarfile.TarInfo("")
    member.mode = 0o444
    return member.tobuf(tarfile.USTAR_FORMAT)


_PLAIN = _plain_header()
# The checksum is that of the header with blanks in the checksum's own place.
_PLAIN_SUM = sum(_PLAIN[:124]) + sum(_PLAIN[136:148]) + 8 * 0x20 + sum(_PLAIN[156:])


def header(name: bytes, size: int) -> bytes:
    """The header of a file, as tarfile's ``TarInfo.tobuf`` makes it, eighty times as fast.

    Args:
        name: with ``/`` between directories; at most `NAME_LIMIT` bytes behind some slash.
        size: of the data, in bytes.

    Raises:
        SinkError: a ustar header cannot hold the name or the size.
    """
    if size >= _SIZE_LIMIT:
        raise SinkError(f"{size} bytes; a ustar header holds less than {_SIZE_LIMIT}")
    prefix = b""
    if len(name) > NAME_LIMIT:
        cut = name.find(b"/", len(name) - NAME_LIMIT - 1)
        if not 0 < cut <= PREFIX_LIMIT or cut == len(name) - 1:
            raise SinkError(f"a ustar header cannot hold the name {name!r}")
        prefix, name = name[:cut], name[cut + 1 :]
    digits = b"%011o\0" % size
    checksum = _PLAIN_SUM + sum(name) + sum(digits) + sum(prefix)
    return b"".join(
        (
            name.ljust(100, b"\0"),
            _PLAIN[100:124],
            digits,
            _PLAIN[136:148],
            b"%06o\0 " % checksum,
            _PLAIN[156:345],
            prefix.ljust(167, b"\0"),
        )
    )


class WebDatasetWriter(ShardWriter):
    """Writes the archive; and the index at the end, as it begins with its number of lines.

    Until then the lines are kept compressed: some 60 bytes a sample instead of 250.
    """

    def __init__(self, data: Path, index: Path, info: DatasetInfo) -> None:
        self._info = info
        self._stems = Stems()
        self._samples = 0
        self._lines: list[bytes] = []
        self._compressor = zlib.compressobj(level=1)
        self._data = HashedFile(data)
        try:
            self._index = HashedFile(index)
        except BaseException:
            self._data.abandon()
            raise

    def write(self, example: Example) -> None:
        """Append one sample; nothing at all if the format cannot hold it."""
        with naming(example):
            parts = webdataset_sample.encode(example, self._info)
            stem = self._stems.name(example.key)
            offset = self._data.size
            line: list[str] = []
            pieces: list[bytes] = []
            for extension, data in parts:
                name = f"{stem}.{extension}"
                offset += BLOCK
                line.append(f"{extension} {offset} {len(data)} {name}")
                pieces += header(name.encode("ascii"), len(data)), data, bytes(-len(data) % BLOCK)
                offset += len(data) + len(pieces[-1])
        self._samples += 1
        if packed := self._compressor.compress(" ".join(line).encode("ascii") + b"\n"):
            self._lines.append(packed)
        # The image, the largest piece by far, is not copied.
        self._data.write(pieces[0])
        self._data.write(pieces[1])
        self._data.write(b"".join(pieces[2:]))

    def close(self) -> Sequence[WrittenFile]:
        """Finish both files."""
        end = 2 * BLOCK
        self._data.write(bytes(end + -(self._data.size + end) % RECORD))
        self._index.write(b"v1.2 %d\n" % self._samples)
        self._lines.append(self._compressor.flush())
        unpacker = zlib.decompressobj()
        for packed in self._lines:
            self._index.write(unpacker.decompress(packed))
        return self._data.finish(), self._index.finish()

    def abandon(self) -> None:
        """Give both files up."""
        self._data.abandon()
        self._index.abandon()


@dataclass(slots=True)
class _Sample:
    """Adjacent members of one stem, and the data of those that were wanted."""

    stem: str
    start: int
    members: list[tuple[str, tarfile.TarInfo]] = field(default_factory=list)
    parts: dict[str, bytes] = field(default_factory=dict)

    def index_line(self) -> bytes:
        """As ``wds2idx`` writes it."""
        parts = (f"{part} {it.offset_data} {it.size} {it.name}" for part, it in self.members)
        return " ".join(parts).encode("utf-8", "surrogateescape") + b"\n"


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
            if self._index is not None:
                self._starts = self._load(self._index)
            else:
                found = self._samples(self._file, 0, frozenset())
                self._starts = array("Q", (sample.start for sample in found))
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
                if line != sample.index_line():
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

    def close(self) -> None:
        """Close the files."""
        self._file.close()
        self._stream.close()
        if self._index is not None:
            self._index.close()

    def _decode(self, number: int, sample: _Sample) -> Example:
        try:
            return webdataset_sample.decode(sample.stem, sample.parts, self._info)
        except SinkError as error:
            raise self._damaged(number, sample.start, error) from error

    def _samples(
        self, file: BinaryIO, start: int, wanted: frozenset[str], number: int = 0
    ) -> Iterator[_Sample]:
        """Samples from offset ``start`` on, which is number ``number``'s, with data of parts."""
        sample: _Sample | None = None
        at = start
        try:
            for member in _members(file, start, self._size):
                at = member.offset
                stem, extension = _split(member.name)
                if not stem:
                    continue
                if sample is None or sample.stem != stem:
                    if sample is not None:
                        yield sample
                        number += 1
                    sample = _Sample(stem, at)
                _take(sample, extension, member, file, wanted)
        except SinkError as error:
            raise self._damaged(number, at, error) from error
        if sample is not None:
            yield sample

    def _load(self, index: BinaryIO) -> array[int]:
        """Where the samples start, by the index."""
        if self._size == 0 or self._size % RECORD:
            raise SinkError(
                f"{self._path}: has {self._size} bytes, expected a multiple of {RECORD}; "
                "make the shard again"
            )
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


def _members(file: BinaryIO, start: int, size: int) -> Iterator[tarfile.TarInfo]:
    """The regular files from offset ``start`` on, and then the end checked.

    Raises:
        SinkError: a header is damaged, or the archive has no proper end; the message says where.
    """
    end = start
    try:
        file.seek(start)
        archive = tarfile.TarFile(fileobj=file, encoding="utf-8", errors="surrogateescape")
        while (member := archive.next()) is not None:
            archive.members = []  # type: ignore[attr-defined] # it would keep all of them
            data = member.size if member.isreg() else 0
            end = member.offset_data + data + -data % BLOCK
            if end > size:
                raise SinkError(f"the archive ends within the member at byte {member.offset}")
            if member.issparse():
                raise SinkError(f"the member at byte {member.offset} is a sparse file")
            if member.isreg():
                yield member
    except tarfile.TarError as error:
        raise SinkError(f"no header of a tar archive behind byte {end}: {error}") from error
    # Where a header is damaged, tarfile takes it for the end.
    file.seek(end)
    if len(blocks := file.read(2 * BLOCK)) < 2 * BLOCK:
        raise SinkError(f"the archive ends at byte {size}, without two blocks of zeros")
    while blocks:
        if any(blocks):
            raise SinkError(f"behind byte {end} is neither a header nor the end of the archive")
        blocks = file.read(RECORD)


def _take(
    sample: _Sample,
    extension: str,
    member: tarfile.TarInfo,
    file: BinaryIO,
    wanted: frozenset[str],
) -> None:
    """Add a member to its sample, and its data if its extension is wanted."""
    sample.members.append((extension, member))
    part = extension.lower()
    if part in wanted:
        if part in sample.parts:
            raise SinkError(f"it has two parts .{part}")
        file.seek(member.offset_data)
        data = file.read(member.size + -member.size % BLOCK)
        if any(data[member.size :]):
            raise SinkError(f"the padding behind the member at byte {member.offset} is not zero")
        sample.parts[part] = data[: member.size]


def _split(name: str) -> tuple[str, str]:
    """Stem and extension; no stem for what readers of this format pass over."""
    directory, slash, last = name.rpartition("/")
    base, dot, extension = last.partition(".")
    if not base or not dot or _METADATA.match(name):
        return "", ""
    return directory + slash + base, extension


class WebDatasetSink(Sink):
    """``--sink webdataset``."""

    name: ClassVar[str] = "webdataset"
    summary: ClassVar[str] = "tar archives for webdataset and DALI, with DALI's index"
    keeps_boxes: ClassVar[bool] = True
    keeps_attributes: ClassVar[bool] = True
    reference: ClassVar[str] = "webdataset library"

    def paths(self, shard: ShardName, layout: Layout) -> Sequence[PurePosixPath]:
        """The archive, then the index in a directory of its own, as readers glob ``train-*``."""
        name = f"{shard}.tar"
        data = PurePosixPath(shard.split, name) if layout == "split" else PurePosixPath(name)
        return data, PurePosixPath("index", shard.split, f"{shard}.idx")

    def overhead(self) -> int:
        """Three headers, two small members, padding, and a line of the index."""
        return _OVERHEAD

    def open(self, paths: Sequence[Path], info: DatasetInfo) -> ShardWriter:
        """Start a shard."""
        data, index = paths
        return WebDatasetWriter(data, index, info)

    def reader(self, paths: Sequence[Path], info: DatasetInfo) -> ShardReader:
        """Open a shard with its index, or the archive alone."""
        return WebDatasetReader(paths, info)

    def reference_records(
        self, paths: Sequence[Path], info: DatasetInfo
    ) -> Iterator[tuple[bytes, tuple[int, ...]]]:
        """The shard through the stages of ``webdataset.WebDataset``."""
        return _library_records(
            import_reader("webdataset", "tariterators", install="webdataset"), paths[0], info
        )


def _library_records(
    library: Any, path: Path, info: DatasetInfo
) -> Iterator[tuple[bytes, tuple[int, ...]]]:
    # The stages of webdataset.WebDataset, but for the one that opens files: it leaves them open,
    # and takes braces and colons in a path for several paths.
    with path.open("rb") as stream:
        try:
            members = library.tariterators.tar_file_expander([{"url": str(path), "stream": stream}])
            for sample in library.tariterators.group_by_keys(members):
                parts = {part: sample[part] for part in webdataset_sample.PARTS if part in sample}
                example = webdataset_sample.decode(sample["__key__"], parts, info)
                yield example.encoded, example.labels
        except Exception as error:
            raise SinkError(f"{path}: webdataset cannot read it: {error}") from error
