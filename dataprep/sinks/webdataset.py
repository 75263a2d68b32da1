"""WebDataset: tar archives whose adjacent members of one stem are a sample.

``train/train-00000-of-00004.tar`` (or flat; numbered even if it is the only one), and
``index/train/train-00000-of-00004.idx``, which is byte for byte what DALI's ``wds2idx`` writes:
``v1.2 <samples>``, then a line a sample of ``<extension> <offset> <size> <name>`` for each part.
(``wds2idx`` fails on an archive without samples; ours says ``v1.2 0``.) `webdataset_sample` says
what the parts are, `webdataset_stem` what they are called.

Every header has a checksum; the data has none. Noticed are damaged headers, padding that is not
zero, an archive cut anywhere, parts that contradict each other, and an index that is not the
archive's. Not noticed are flipped bits in an image: for these there is the SHA-256 in the manifest.
"""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

from dataprep.errors import SinkError, UsageError
from dataprep.sinks import webdataset_sample
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
from dataprep.sinks.tar_framing import BLOCK, header, padding, trailer
from dataprep.sinks.webdataset_reader import WebDatasetReader
from dataprep.sinks.webdataset_stem import Stems

_OVERHEAD = 3 * BLOCK + 2 * BLOCK + BLOCK // 2 + 150  # headers, .cls, .json, padding, index


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
        try:
            parts = webdataset_sample.encode(example, self._info)
            stem = self._stems.name(example.key)
            offset = self._data.size
            line: list[str] = []
            pieces: list[bytes] = []
            for extension, data in parts:
                name = f"{stem}.{extension}"
                offset += BLOCK
                line.append(f"{extension} {offset} {len(data)} {name}")
                pieces += header(name.encode("ascii"), len(data)), data, padding(len(data))
                offset += len(data) + len(pieces[-1])
        except SinkError as error:
            raise SinkError(f"{example.key!r}: {error}") from error
        self._samples += 1
        if packed := self._compressor.compress(" ".join(line).encode("ascii") + b"\n"):
            self._lines.append(packed)
        # The image, the largest piece by far, is not copied.
        self._data.write(pieces[0])
        self._data.write(pieces[1])
        self._data.write(b"".join(pieces[2:]))

    def close(self) -> Sequence[WrittenFile]:
        """Finish both files."""
        self._data.write(trailer(self._data.size))
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
        return _library_records(_tar_iterators(), paths[0], info)


def _library_records(
    library: Any, path: Path, info: DatasetInfo
) -> Iterator[tuple[bytes, tuple[int, ...]]]:
    # The stages of webdataset.WebDataset, but for the one that opens files: it leaves them open,
    # and takes braces and colons in a path for several paths.
    with path.open("rb") as stream:
        try:
            members = library.tar_file_expander([{"url": str(path), "stream": stream}])
            for sample in library.group_by_keys(members):
                parts = {part: sample[part] for part in webdataset_sample.PARTS if part in sample}
                example = webdataset_sample.decode(sample["__key__"], parts, info)
                yield example.encoded, example.labels
        except Exception as error:
            raise SinkError(f"{path}: webdataset cannot read it: {error}") from error


def _tar_iterators() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its dependencies' deprecations, at import only
        try:
            return import_module("webdataset.tariterators")
        except ImportError as error:
            raise UsageError(
                f"the webdataset library cannot be imported ({error}): pip install webdataset"
            ) from error
