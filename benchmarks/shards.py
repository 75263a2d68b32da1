"""What does it cost to read what others have packed, beside an archive of archives?

The same photographs as class archives in one archive, WebDataset, TFRecord, RecordIO and Parquet,
whose images lie as they are or are compressed, into TFRecord with ``--check header``. Scanning
alone is timed in this process.
"""

from __future__ import annotations

import io
import shutil
import sys
import tarfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from benchmarks import raw_sets
from benchmarks.measure import Setting, Usage, fresh, prepared, rounds, run
from benchmarks.tables import Row, compared, figure
from dataprep.plugins import load_dataset

_SHARD = 500  # images
_SINKS = ("webdataset", "tfrecord", "recordio", "parquet")
_LABELS = {
    "webdataset": ("--label_field", "json.synset"),
    "tfrecord": ("--label_base", "1"),
    "recordio": ("--label_base", "0"),
}


def measure(setting: Setting) -> list[Row]:
    """Scans and whole commands of every form, in rounds."""
    images = setting.size(8_000, 300)
    forms = {name: _form(setting, name, images) for name in ("archives", *_SINKS, "snappy")}
    header = ("--check", "header")

    def whole(name: str) -> Usage:
        dataset, raw, options = forms[name]
        return prepared(setting, raw, *options, *header, dataset=dataset)

    def scan(name: str) -> float:
        dataset, raw, options = forms[name]
        values = dict(zip(options[::2], options[1::2], strict=True))
        own = {word.removeprefix("--"): value for word, value in values.items()}
        own.pop("splits", None)
        began = time.perf_counter()
        scanning = load_dataset(dataset, own)
        found = scanning.find(raw, ["train"])
        for unit in found.units:
            scanned = scanning.scan(raw, found, unit)
            if scanned.copy is not None:
                with (setting.work / unit.copy_name).open("wb") as file:
                    scanned.copy(file)
        return images / (time.perf_counter() - began)

    whole_of = rounds(setting, "shards", {name: partial(whole, name) for name in forms})
    scan_of = rounds(setting, "scans", {name: partial(scan, name) for name in forms})
    rows = []
    theirs = [images / usage.seconds for usage in whole_of["archives"]]
    for name in forms:
        speeds = [images / usage.seconds for usage in whole_of[name]]
        if name != "archives":
            rows.append(compared(f"{name}, against archives in an archive", speeds, theirs))
        rows.append(figure(f"{name}: find and scan, one thread", scan_of[name], "images/s"))
    return rows


def _form(setting: Setting, name: str, images: int) -> tuple[str, Path, Sequence[str]]:
    """The command that reads a form, where that is, and its options."""
    tree = raw_sets.tree(setting, images)
    fill: Mapping[str, Callable[[Path], None]] = {
        "archives": lambda place: _archives(tree, place),
        "snappy": lambda place: _snappy(_form(setting, "parquet", images)[1], place),
    }
    made = fill.get(name, lambda place: _written(setting, tree, place, name))
    raw = raw_sets.made(setting, f"{name}-{images}", made)
    if name == "archives":
        return "imagenet", raw, ("--splits", "train")
    return "shards", raw, _LABELS.get(name, ())


def _archives(tree: Path, place: Path) -> None:
    with tarfile.open(place / "ILSVRC2012_img_train.tar", "w") as outer:
        for folder in sorted((tree / "train").iterdir()):
            stream = io.BytesIO()
            with tarfile.open(fileobj=stream, mode="w") as inner:
                for path in sorted(folder.iterdir()):
                    inner.add(path, path.name)
            info = tarfile.TarInfo(f"{folder.name}.tar")
            info.size = stream.tell()
            stream.seek(0)
            outer.addfile(info, stream)


def _written(setting: Setting, tree: Path, place: Path, sink: str) -> None:
    """Shards as dataprep writes them, without what says that they are its own."""
    count = max(1, len(raw_sets.files(tree)) // _SHARD)
    words = ("--sink", sink, "--num_shards", str(count), "--check", "header", "--splits", "train")
    with fresh(setting.work / "written") as out:
        places = ("--raw_data_dir", tree, "--local_scratch_dir", out)
        run([sys.executable, "-m", "dataprep", "imagenet", *places, *words])
        for path in out.iterdir():
            if path.name[0] != "." and path.name not in ("manifest.json", "records.parquet"):
                shutil.move(path, place)


def _snappy(plain: Path, place: Path) -> None:
    """The same tables, as Hugging Face wrote them before it left images as they are."""
    for path in sorted(plain.rglob("*.parquet")):
        table: pa.Table = parquet.read_table(path, partitioning=None)
        parquet.write_table(table, place / path.name, compression="snappy", row_group_size=100)
