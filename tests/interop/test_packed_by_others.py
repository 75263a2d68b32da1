"""Shards that the other projects' own writers have written give what the folders give."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pyarrow import parquet

import dataprep
from tests.conftest import hashes, nightly
from tests.datasets.packing import CLASSES, One, ones, write_folders
from tests.interop.conftest import imported

IMAGES = ones(24)
STAND_INS = Path(__file__).parents[2] / "examples" / "dataprep-mds" / "tests" / "stand_ins"

_MXNET = """
import pickle, sys, mxnet
images = pickle.load(open(sys.argv[1] + ".pickle", "rb"))
stem = sys.argv[1] + "/train"
record = mxnet.recordio.MXIndexedRecordIO(stem + ".idx", stem + ".rec", "w")
with open(stem + ".lst", "w") as listing:
    for number, (key, data, label) in enumerate(images):
        header = mxnet.recordio.IRHeader(0, float(label), number, 0)
        record.write_idx(number, mxnet.recordio.pack(header, data))
        listing.write("%d\\t%f\\t%s\\n" % (number, label, key))
record.close()
"""


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    place = tmp_path_factory.mktemp("folders")
    write_folders(place / "raw", IMAGES)
    return made("folder", place / "raw", place / "out")


def made(dataset: str, raw: Path, out: Path, **options: Any) -> Mapping[str, str]:
    dataprep.prepare(
        dataset,
        raw=raw,
        out=out,
        num_shards=3,
        **options,
    )
    return {name: one for name, one in hashes(out).items() if name.startswith("train/")}


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    (tmp_path / "raw").mkdir()
    (tmp_path / "classes.txt").write_text("\n".join(CLASSES))
    return tmp_path / "raw"


def from_shards(raw: Path, **options: Any) -> Mapping[str, str]:
    return made("shards", raw, raw.with_name("out"), **options)


@pytest.mark.parametrize("suffix", ["tar", "tar.gz"])
def test_webdataset(suffix: str, raw: Path, expected: Mapping[str, str]) -> None:
    library = imported("webdataset")
    for number, some in enumerate((IMAGES[:10], IMAGES[10:])):
        with library.TarWriter(str(raw / f"set-train-{number:06d}.{suffix}")) as archive:
            for one in some:
                said = {"label": CLASSES[one.label], "file": one.key}
                key = one.key.removesuffix(".jpg")
                archive.write({"__key__": key, "jpg": one.data, "json": said})
    assert from_shards(raw) == expected


@pytest.mark.parametrize("kept", [True, False], ids=["its own pages", "snappy"])
def test_hugging_face(kept: bool, raw: Path, expected: Mapping[str, str]) -> None:
    library = imported("datasets")
    images = [{"bytes": one.data, "path": one.key} for one in IMAGES]
    features = library.Features(image=library.Image(), label=library.ClassLabel(names=[*CLASSES]))
    labels = [one.label for one in IMAGES]
    found = library.Dataset.from_dict({"image": images, "label": labels}, features=features)
    for number in range(2):
        path = raw / "data" / f"train-{number:05d}-of-00002.parquet"
        found.shard(2, number).to_parquet(str(path))
        if not kept:  # as it wrote them before 4.6
            parquet.write_table(parquet.read_table(path), path, compression="snappy")
    assert from_shards(raw) == expected


@pytest.mark.parametrize("compression", ["", "GZIP", "ZLIB"])
def test_tensorflow(
    compression: str, tf: ModuleType, raw: Path, expected: Mapping[str, str]
) -> None:
    def texts(text: str | bytes) -> object:
        data = text.encode() if isinstance(text, str) else text
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[data]))

    with tf.io.TFRecordWriter(str(raw / "train-00000-of-00001"), compression) as file:
        for one in IMAGES:
            label = tf.train.Int64List(value=[one.label + 1])
            feature = {
                "image/encoded": texts(one.data),
                "image/filename": texts(one.key),
                "image/class/label": tf.train.Feature(int64_list=label),
                "image/class/synset": texts(CLASSES[one.label]),
            }
            example = tf.train.Example(features=tf.train.Features(feature=feature))
            file.write(example.SerializeToString())
    assert from_shards(raw) == expected


def run(variable: str, what: str, program: str, raw: Path, images: Sequence[One]) -> None:
    """A program in an interpreter of its own, which gets the images as plain tuples."""
    if variable not in os.environ:
        pytest.skip(f"set {variable} to a Python that has {what}")
    raw.with_name("raw.pickle").write_bytes(pickle.dumps([tuple(one) for one in images]))
    command = [os.environ[variable], "-c", program, str(raw)]
    # Of what streaming imports and its writer does not use, `make test-example` has stand-ins.
    environment = {**os.environ, "PYTHONPATH": str(STAND_INS)}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=120, env=environment
    )
    assert done.returncode == 0, done.stderr


def test_mxnet(raw: Path, expected: Mapping[str, str]) -> None:
    run("DATAPREP_MXNET_PYTHON", "MXNet 1.9 and NumPy before 1.24", _MXNET, raw, IMAGES)
    assert from_shards(raw, classes=raw.with_name("classes.txt")) == expected


_MDS = """
import pickle, sys, streaming
images = pickle.load(open(sys.argv[1] + ".pickle", "rb"))
columns = {"image": "bytes", "key": "str", "label": "int"}
how = dict(columns=columns, size_limit=4096, compression=COMPRESSION)
with streaming.MDSWriter(out=sys.argv[1] + "/train", **how) as shards:
    for key, data, label in images:
        shards.write({"image": data, "key": key, "label": label})
"""
_READ = """
import sys, streaming
print(sum(1 for _ in streaming.StreamingDataset(local=sys.argv[1] + "/train", batch_size=1)))
"""


@pytest.mark.parametrize(
    "compression", [None, "zstd:7", *nightly("zstd", "gz", "bz2", "br", "snappy")]
)
def test_mosaicml(compression: str | None, raw: Path, expected: Mapping[str, str]) -> None:
    program = _MDS.replace("COMPRESSION", repr(compression))
    run("DATAPREP_MDS_PYTHON", "mosaicml-streaming", program, raw, IMAGES)
    suffix = f".{compression.partition(':')[0]}" if compression else ""
    assert len(list((raw / "train").glob(f"*.mds{suffix}"))) > 1
    assert bool(suffix) != bool(list((raw / "train").glob("*.mds")))
    assert from_shards(raw, classes=raw.with_name("classes.txt")) == expected


def test_mosaicml_after_a_read(raw: Path, expected: Mapping[str, str]) -> None:
    """A reader leaves shards beside compressed ones: of each one is taken, and counted once."""
    run(
        "DATAPREP_MDS_PYTHON",
        "mosaicml-streaming",
        _MDS.replace("COMPRESSION", "'zstd'"),
        raw,
        IMAGES,
    )
    run("DATAPREP_MDS_PYTHON", "mosaicml-streaming", _READ, raw, IMAGES)
    plain = sorted((raw / "train").glob("*.mds"))
    assert len(plain) == len([*(raw / "train").glob("*.mds.zstd")]) > 1
    for path in plain[::2]:
        path.unlink()
    assert from_shards(raw, classes=raw.with_name("classes.txt")) == expected


@pytest.mark.parametrize(
    ("suffix", "program"),
    [("zst", "zstd -T2"), ("zst", "pzstd"), ("xz", "xz -T2 --block-size=4096"), ("xz", "tar -cJ")],
)
def test_archives_by_their_programs(
    suffix: str, program: str, raw: Path, expected: Mapping[str, str]
) -> None:
    words = program.split()
    if shutil.which(words[0]) is None:
        pytest.skip(f"no {words[0]} here")
    folders = raw.with_name("folders")
    write_folders(folders, IMAGES)
    (raw / "train").mkdir()
    for folder in sorted((folders / "train").iterdir()):
        into = raw / "train" / f"{folder.name}.tar.{suffix}"
        tar = ["tar", "-cJ" if words[0] == "tar" else "-c", "-C", str(folder), "."]
        data = subprocess.run(tar, capture_output=True, check=True).stdout
        if words[0] != "tar":
            data = subprocess.run(
                [*words, "-c"], input=data, capture_output=True, check=True
            ).stdout
        into.write_bytes(data)
    assert made("folder", raw, raw.with_name("out")) == expected
