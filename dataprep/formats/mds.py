"""MosaicML's streaming shards (MDS): samples of named columns, in files that an index lists.

A shard is ``u32 n | u32 offset x (n + 1) | JSON | samples``, little-endian, its offsets from the
start of the file; a sample is a u32 size of each column that has no fixed one, and the columns.
Source: streaming/base/format/mds/writer.py and encodings.py. Pickled columns are never opened.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from dataprep.archives.listing import StoredImage
from dataprep.archives.open_files import ByteStream
from dataprep.archives.packed import Codec, Copy
from dataprep.errors import SourceError
from dataprep.formats.samples import HEAD, LONGEST, Sample, Value, is_image, streamed
from dataprep.rows import Packing
from dataprep.system.messages import printable, unreadable
from dataprep.system.regular_files import read_regular

INDEX: Final = "index.json"
_BITS: Final = {"int": (8, 16, 32, 64), "uint": (8, 16, 32, 64), "float": (16, 32, 64)}
_NUMBERS: Final = {"int": "<i8"} | {
    f"{kind}{bits}": f"<{kind[0]}{bits // 8}" for kind in _BITS for bits in _BITS[kind]
}
_TEXTS: Final = ("str", "str_int", "str_float", "str_decimal")
_FILES: Final = ("jpeg", "png", "bytes")
# Source: streaming/base/compression.py; a level may follow, as in zstd:3.
_CODECS: Final[Mapping[str, Codec]] = {
    "zstd": "zstd",
    "gz": "gzip",
    "bz2": "bz2",
    "br": "brotli",
    "snappy": "snappy",
}


class _File(msgspec.Struct, frozen=True):
    basename: str


class Shard(msgspec.Struct, frozen=True):
    """What the index says of a shard."""

    column_names: tuple[str, ...]
    column_encodings: tuple[str, ...]
    column_sizes: tuple[int | None, ...]
    raw_data: _File
    samples: int
    format: str
    zip_data: _File | None = None
    compression: str | None = None

    def codec(self, name: str) -> Codec | None:
        """By what its file of this name is compressed; None: it is not.

        Raises:
            SourceError: by what nothing here unpacks.
        """
        if name == self.raw_data.basename:
            return None
        said = str(self.compression)
        if (codec := _CODECS.get(said.partition(":")[0])) is None:
            raise SourceError(
                f"{printable(name)} is compressed by {printable(said)}, as {INDEX} says; expected "
                f"one of {', '.join(_CODECS)}; write the shards again with one of these, or with "
                "none"
            )
        return codec


class _Index(msgspec.Struct, frozen=True):
    shards: tuple[Shard, ...]


def mds_shards(raw: Path, folder: str) -> Mapping[str, Shard] | None:
    """The shards of a directory by their files' names, compressed and not.

    Returns:
        None if its index is somebody else's.

    Raises:
        SourceError: the index cannot be read.
    """
    try:
        found = msgspec.json.decode(read_regular(raw / folder / INDEX), type=_Index)
    except OSError as error:
        raise unreadable(f"{folder}/{INDEX}", error) from error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    shards = [each for each in found.shards if each.format == "mds"]
    packed = {each.zip_data.basename: each for each in shards if each.zip_data}
    return packed | {each.raw_data.basename: each for each in shards}


def mds_samples(raw: Path, container: str, copy: Copy | None = None) -> Iterator[Sample]:
    """The samples of a shard, which have no keys.

    Args:
        copy: what one that is compressed is unpacked to.

    Raises:
        SourceError: the shard or the index cannot be read or is damaged.
    """
    folder, _, name = container.rpartition("/")
    shard = (mds_shards(raw, folder) or {}).get(name)
    if shard is None:
        raise SourceError(
            f"{printable(folder)}/{INDEX} does not list {printable(name)}; copy or download it "
            "again"
        )
    with streamed(raw, container, "MDS shard", copy) as (source, stream, packing):
        (count,) = struct.unpack("<I", stream.read_at(0, 4))
        if count != shard.samples:
            raise ValueError(f"{count} samples, its index says {shard.samples}")
        file = container, packing, source.mtime
        for number in range(count):
            start, end = struct.unpack("<II", stream.read_at(4 + 4 * number, 8))
            yield _sample(stream, shard, (start, end), file)


def _sample(
    stream: ByteStream, shard: Shard, place: tuple[int, int], file: tuple[str, Packing, int]
) -> Sample:
    at, end = place
    varying = shard.column_sizes.count(None)
    sizes = iter(struct.unpack(f"<{varying}I", stream.read_at(at, 4 * varying)))
    at += 4 * varying
    sample = Sample("", {}, {}, [])
    columns = zip(shard.column_names, shard.column_encodings, shard.column_sizes, strict=True)
    for name, encoding, fixed in columns:
        size = next(sizes) if fixed is None else fixed
        if encoding in _FILES:
            if is_image(stream.read_at(at, min(HEAD, size))):
                container, packing, mtime = file
                sample.images[name] = StoredImage("", container, at, size, 0, packing, mtime)
        elif size > LONGEST:
            sample.unread.append(name)
        elif (value := _value(encoding, stream.read_at(at, size))) is not None:
            sample.fields[name] = value
        at += size
    if at != end:
        raise ValueError(f"a sample that ends at byte {at}, its index says {end}")
    return sample


def _value(encoding: str, data: bytes) -> Value:
    if encoding in _NUMBERS:
        number: Any = np.frombuffer(data, _NUMBERS[encoding])[0].item()
        return number  # type: ignore[no-any-return]  # NumPy's item() is any number
    if encoding in _TEXTS:
        return data.decode("utf-8")
    if encoding == "json":
        return json.loads(data)  # type: ignore[no-any-return]  # any JSON is a value
    return None
