"""The same images as others pack them, written here by the formats' rules or their libraries."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import struct
import tarfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import zstandard
from pyarrow import parquet

from dataprep.formats import recordio, tfrecord
from dataprep_schemas import example_pb2
from tests.fuzz.raw_readers import picture

CLASSES = ("airfield", "bakery", "canyon")


class One(NamedTuple):
    """An image with its label."""

    key: str
    data: bytes
    label: int


def ones(count: int = 12, form: str = "JPEG") -> list[One]:
    """Images of every class."""
    suffix = {"JPEG": "jpg", "PNG": "png"}[form]
    labels = [number % len(CLASSES) for number in range(count)]
    return [
        One(f"{CLASSES[label]}/{number}.{suffix}", picture(number, form), label)
        for number, label in enumerate(labels)
    ]


def write_folders(raw: Path, images: Sequence[One]) -> None:
    for one in images:
        path = raw / "train" / one.key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(one.data)


def tar_of(members: Mapping[str, bytes], mode: Any = "w") -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=mode) as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return stream.getvalue()


def samples_of(images: Sequence[One]) -> dict[str, bytes]:
    """Members of a WebDataset archive."""
    members = {}
    for one in images:
        members[one.key] = one.data
        members[f"{one.key.rpartition('.')[0]}.cls"] = b"%d" % one.label
    return members


def write_webdataset(raw: Path, images: Sequence[One]) -> None:
    half = len(images) // 2
    for number, some in enumerate((images[:half], images[half:])):
        (raw / f"set-train-{number:06d}.tar").write_bytes(tar_of(samples_of(some)))


def write_webdataset_gzip(raw: Path, images: Sequence[One]) -> None:
    (raw / "train.tar.gz").write_bytes(tar_of(samples_of(images), "w:gz"))


def zstd_frames(data: bytes) -> bytes:
    """Two frames, and one before each that is to be skipped (RFC 8878, 3.1.2)."""
    skipped = struct.pack("<II", 0x184D2A50, 3) + b"abc"
    pack = zstandard.ZstdCompressor().compress
    return skipped + pack(data[:999]) + skipped + pack(data[999:])


def write_packed_webdataset(
    raw: Path, images: Sequence[One], suffix: str, pack: Callable[[bytes], bytes]
) -> None:
    half = len(images) // 2
    for number, some in enumerate((images[:half], images[half:])):
        packed = pack(tar_of(samples_of(some)))
        (raw / f"set-train-{number:06d}.tar.{suffix}").write_bytes(packed)


def table_of(images: Sequence[One], *, nullable: bool = True) -> pa.Table:
    """As Hugging Face's ``datasets`` has images and their classes."""
    struct_ = pa.struct([pa.field("bytes", pa.binary(), nullable=nullable), ("path", pa.string())])
    rows = [{"bytes": one.data, "path": one.key} for one in images]
    features = {
        "image": {"_type": "Image"},
        "label": {"names": [*CLASSES], "_type": "ClassLabel"},
    }
    schema = pa.schema(
        [pa.field("image", struct_, nullable=nullable), ("label", pa.int64())],
        {"huggingface": json.dumps({"info": {"features": features}})},
    )
    return pa.table([pa.array(rows, struct_), [one.label for one in images]], schema=schema)


def write_parquet(
    raw: Path, images: Sequence[One], *, nullable: bool = True, **options: Any
) -> None:
    plain = {"compression": "none", "use_dictionary": False}
    table = table_of(images, nullable=nullable)
    path = raw / "train-00000-of-00001.parquet"
    parquet.write_table(table, path, row_group_size=5, **{**plain, **options})


def write_compressed_parquet(raw: Path, images: Sequence[One]) -> None:
    write_parquet(raw, images, compression="snappy", use_dictionary=True)


def example_of(features: Mapping[str, bytes | int | Sequence[int]]) -> bytes:
    """A tf.train.Example."""
    found = example_pb2.Example()
    for name, value in features.items():
        feature = found.features.feature[name]
        if isinstance(value, bytes):
            feature.bytes_list.value.append(value)
        else:
            feature.int64_list.value.extend([value] if isinstance(value, int) else value)
    return found.SerializeToString()


def records_of(examples: Sequence[bytes]) -> bytes:
    """A TFRecord file."""
    return b"".join(b"".join(tfrecord.frame(b"", data, b"")) for data in examples)


def write_tfrecord(
    raw: Path, images: Sequence[One], pack: Callable[[bytes], bytes] = bytes
) -> None:
    examples = [
        example_of(
            {
                "image/encoded": one.data,
                "image/filename": one.key.encode(),
                "image/class/label": one.label + 1,
                "image/class/synset": CLASSES[one.label].encode(),
            }
        )
        for one in images
    ]
    (raw / "train-00000-of-00001").write_bytes(pack(records_of(examples)))


def write_recordio(raw: Path, images: Sequence[One]) -> None:
    records, lines = [], []
    for number, one in enumerate(images):
        header = recordio.HEADER.pack(0, float(one.label), number, 0)
        records += recordio.frame(header, one.data)
        lines.append(f"{number}\t{one.label:f}\t{one.key}\n")
    (raw / "train.rec").write_bytes(b"".join(records))
    (raw / "train.lst").write_text("".join(lines))


MDS_PACKS: Mapping[str, Callable[[bytes], bytes]] = {
    "zstd": lambda data: zstandard.ZstdCompressor().compress(data),
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "br": lambda data: pa.Codec("brotli").compress(data, asbytes=True),
    "snappy": lambda data: pa.Codec("snappy").compress(data, asbytes=True),
}


def write_mds(raw: Path, images: Sequence[One], suffix: str = "") -> None:
    (raw / "train").mkdir()
    names, encodings, sizes = ("image", "key", "label"), ("jpeg", "str", "int"), (None, None, 8)
    samples = []
    for one in images:
        key = one.key.encode()
        heads = struct.pack("<II", len(one.data), len(key))
        samples.append(heads + one.data + key + struct.pack("<q", one.label))
    at = 4 + 4 * (len(samples) + 1)
    offsets = [at]
    for sample in samples:
        offsets.append(offsets[-1] + len(sample))
    data = struct.pack(f"<I{len(offsets)}I", len(samples), *offsets) + b"".join(samples)
    name, zipped = "shard.00000.mds", None
    if suffix:
        name += f".{suffix}"
        zipped = {"basename": name, "bytes": 0, "hashes": {}}
    (raw / "train" / name).write_bytes(MDS_PACKS[suffix](data) if suffix else data)
    shard = {
        "compression": suffix or None,
        "column_names": names,
        "column_encodings": encodings,
        "column_sizes": sizes,
        "raw_data": {"basename": "shard.00000.mds", "bytes": len(data), "hashes": {}},
        "samples": len(samples),
        "format": "mds",
        "zip_data": zipped,
    }
    (raw / "train" / "index.json").write_text(json.dumps({"shards": [shard], "version": 2}))


WRITERS: Mapping[str, Callable[[Path, Sequence[One]], None]] = {
    "webdataset": write_webdataset,
    "webdataset.tar.gz": write_webdataset_gzip,
    "parquet": write_parquet,
    "compressed parquet": write_compressed_parquet,
    "tfrecord": write_tfrecord,
    "recordio": write_recordio,
    "mds": write_mds,
    "webdataset.tar.zst": partial(write_packed_webdataset, suffix="zst", pack=zstd_frames),
    "webdataset.tar.xz": partial(write_packed_webdataset, suffix="xz", pack=lzma.compress),
    "tfrecord gzip": partial(write_tfrecord, pack=gzip.compress),
    "tfrecord zlib": partial(write_tfrecord, pack=zlib.compress),
    **{f"mds {suffix}": partial(write_mds, suffix=suffix) for suffix in MDS_PACKS},
}
