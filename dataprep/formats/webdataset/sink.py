"""WebDataset: tar archives whose adjacent members of one stem are a sample.

``train/train-00000-of-00004.tar`` (or flat; numbered even if it is the only one), and
``index/train/train-00000-of-00004.idx``, which is byte for byte what DALI's ``wds2idx`` writes:
``v1.2 <samples>``, then a line a sample of ``<extension> <offset> <size> <name>`` for each part.
(``wds2idx`` fails on an archive without samples; ours says ``v1.2 0``.) `webdataset_sample` says
what the parts are and what they are called. Archives are plain POSIX ustar with nothing in them
that depends on the machine: mode 0444, time 0, owner 0, as ``webdataset.TarWriter`` lays them out.

Every header has a checksum; the data has none. Noticed are damaged headers, an archive cut
anywhere, parts that contradict each other, and an index whose samples are not where it says. Not
noticed are flipped bits in an image: for these there is the SHA-256 in the manifest.
"""

from __future__ import annotations

import io
import re
import tarfile
from array import array
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

from typing_extensions import override

from dataprep.errors import SinkError
from dataprep.formats import Layout, PlainSink, Record, ShardName, WrittenFile
from dataprep.formats.example import DatasetInfo, Example
from dataprep.formats.reference_readers import import_reader
from dataprep.formats.stream import StreamReader, StreamWriter
from dataprep.formats.webdataset import sample as webdataset_sample
from dataprep.formats.webdataset.sample import NAME_LIMIT, PREFIX_LIMIT, Stems
from dataprep.system.regular_files import open_regular, read_regular
from dataprep_schemas.fields import EVERY, KindName

BLOCK = tarfile.BLOCKSIZE
RECORD = tarfile.RECORDSIZE  # what an archive of GNU tar or Python is padded to
_SIZE_LIMIT = 8**11
_METADATA = re.compile(r"__[^/]*__(/|$)")  # what the webdataset library passes over


_MEMBER = tarfile.TarInfo("")
_MEMBER.mode = 0o444
_PLAIN = _MEMBER.tobuf(tarfile.USTAR_FORMAT)
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


class WebDatasetWriter(StreamWriter):
    """Writes the archive; and the index at the end, as it begins with its number of lines."""

    def __init__(self, paths: Sequence[Path], info: DatasetInfo) -> None:
        super().__init__(paths, info)
        self._stems = Stems(info)
        self._lines: list[bytes] = []

    @override
    def append(self, example: Example) -> None:
        """Append one sample; nothing at all if the format cannot hold it."""
        archive, _ = self.files
        parts = webdataset_sample.encode(example, self.info)
        stem = self._stems.name(example.key)
        offset = archive.size
        line, pieces = list[str](), list[bytes]()
        for extension, data in parts:
            name = f"{stem}.{extension}"
            offset += BLOCK
            line.append(f"{extension} {offset} {len(data)} {name}")
            pieces += header(name.encode("ascii"), len(data)), data, bytes(-len(data) % BLOCK)
            offset += len(data) + len(pieces[-1])
        self._lines.append(" ".join(line).encode("ascii") + b"\n")
        # The image, the largest piece by far, is not copied.
        archive.write(pieces[0], pieces[1], b"".join(pieces[2:]))

    @override
    def close(self) -> Sequence[WrittenFile]:
        archive, index = self.files
        end = 2 * BLOCK
        archive.write(bytes(end + -(archive.size + end) % RECORD))
        index.write(b"v1.2 %d\n" % len(self._lines), *self._lines)
        return super().close()


class WebDatasetReader(StreamReader):
    """Reads one shard, of ours or of other tools; if there is no index, it is walked through."""

    @override
    def offsets(self, sidecars: Sequence[Path]) -> Sequence[int]:
        """Where the headers of the samples' first members are; the last sample has the end, too."""
        starts = array("Q")
        if sidecars:
            (version, count), *lines = (it.split() for it in read_regular(sidecars[0]).splitlines())
            starts.extend(int(line[1]) - BLOCK for line in lines)
            if (version, int(count)) != (b"v1.2", len(starts)) or self.size % RECORD:
                raise SinkError(
                    f"{sidecars[0]} has {len(starts)} lines, but begins with {count.decode()}; "
                    f"and the archive has {self.size} bytes, expected a multiple of {RECORD}"
                )
        else:
            last = ""
            with tarfile.open(self.path, "r:", encoding="utf-8", errors="surrogateescape") as tar:
                while (member := tar.next()) is not None:
                    tar.members = []  # type: ignore[attr-defined] # it would keep all of them
                    stem, _ = _split(member.name) if member.isreg() else ("", "")
                    if stem and stem != last:
                        starts.append(member.offset)
                        last = stem
        return [0, *starts[1:], self.size] if starts else [0]

    @override
    def decode(self, number: int, data: bytes) -> Example:
        """The parts of a sample; what lies between samples is passed over."""
        parts: dict[str, bytes] = {}
        stems: list[str] = []
        end = 0
        for name, start, size in _members(data):
            end = start + -(-size // BLOCK) * BLOCK
            stem, extension = _split(name)
            extension = extension.lower()
            if stem and stem not in stems:
                stems.append(stem)
            if not stem or extension not in webdataset_sample.PARTS:
                continue
            if extension in parts:
                raise SinkError(f"it has two parts .{extension}")
            parts[extension] = data[start : start + size]
        # Where a header is damaged, tarfile takes it for the end.
        is_last = number == len(self) - 1
        if any(data[end:]) or (len(data) - end < 2 * BLOCK if is_last else len(data) != end):
            raise SinkError(f"behind its byte {end} is neither a header nor the archive's end")
        if len(stems) != 1:
            raise SinkError(f"expected one sample, found {', '.join(stems) or 'none'}")
        return webdataset_sample.decode(stems[0], parts, self.info)

    @override
    def image(self, number: int) -> bytes:
        """The first member, if the writer's is the header and it is an image; else as `read`."""
        data = self.record(number)
        found = _written(data, 0)
        if found is None or _split(found[0])[1] not in webdataset_sample.IMAGES:
            return self.decode(number, data).encoded
        return data[found[1] : found[1] + found[2]]


def _members(data: bytes) -> list[tuple[str, int, int]]:
    """Name, offset and size of every member; without a name where it is no file."""
    found, at = [], 0
    while (member := _written(data, at)) is not None:
        found.append(member)
        at = member[1] + -(-member[2] // BLOCK) * BLOCK
    if not any(data[at : at + BLOCK]):
        return found
    with tarfile.open(
        fileobj=io.BytesIO(data), mode="r:", encoding="utf-8", errors="surrogateescape"
    ) as tar:
        return [(it.name if it.isreg() else "", it.offset_data, it.size) for it in tar]


def _written(data: bytes, at: int) -> tuple[str, int, int] | None:
    """Name, offset and size of a member; None where the writer would have made another header.

    So the header is intact; others are left to tarfile, which takes 20 times as long.
    """
    block = data[at : at + BLOCK]
    name, digits, prefix = block[:100].rstrip(b"\0"), block[124:135], block[345:500].rstrip(b"\0")
    name = prefix + b"/" + name if prefix else name
    if not digits.isdigit() or b"8" in digits or b"9" in digits:
        return None
    size = int(digits, 8)
    try:
        good = header(name, size) == block and at + BLOCK + size <= len(data)
    except SinkError:
        return None
    return (name.decode("utf-8", "surrogateescape"), at + BLOCK, size) if good else None


def _split(name: str) -> tuple[str, str]:
    """Stem and extension; no stem for what readers of this format pass over."""
    directory, slash, last = name.rpartition("/")
    base, dot, extension = last.partition(".")
    if not base or not dot or _METADATA.match(name):
        return "", ""
    return directory + slash + base, extension


class WebDatasetSink(PlainSink):
    """``--sink webdataset``."""

    name: ClassVar[str] = "webdataset"
    summary: ClassVar[str] = "tar archives for webdataset and DALI, with DALI's index"
    keeps: ClassVar[Collection[KindName]] = EVERY
    reference: ClassVar[str] = "webdataset library"
    # Headers, .cls, .json, padding, index.
    overhead: ClassVar[int] = 3 * BLOCK + 2 * BLOCK + BLOCK // 2 + 150
    Writer = WebDatasetWriter
    Reader = WebDatasetReader

    @override
    def stores_classes(self, info: DatasetInfo) -> bool:
        """Only those that an image has."""
        return False

    @override
    def paths(self, shard: ShardName, layout: Layout) -> Sequence[PurePosixPath]:
        """The archive, then the index in a directory of its own, as readers glob ``train-*``."""
        name = f"{shard}.tar"
        data = PurePosixPath(shard.split, name) if layout == "split" else PurePosixPath(name)
        return data, PurePosixPath("index", shard.split, f"{shard}.idx")

    @override
    def reference_records(self, paths: Sequence[Path], info: DatasetInfo) -> Iterator[Record]:
        """The shard through the stages of ``webdataset.WebDataset``."""
        return _library_records(
            import_reader("webdataset", "tariterators", install="webdataset"), paths[0], info
        )


def _library_records(library: Any, path: Path, info: DatasetInfo) -> Iterator[Record]:
    # The stages of webdataset.WebDataset, but for the one that opens files: it leaves them open,
    # and takes braces and colons in a path for several paths.
    with open_regular(path) as stream:
        try:
            members = library.tariterators.tar_file_expander([{"url": str(path), "stream": stream}])
            for sample in library.tariterators.group_by_keys(members):
                parts = {part: sample[part] for part in webdataset_sample.PARTS if part in sample}
                example = webdataset_sample.decode(sample["__key__"], parts, info)
                yield example.encoded, example.labels
        except Exception as error:
            raise SinkError(f"{path}: webdataset cannot read it: {error}") from error
