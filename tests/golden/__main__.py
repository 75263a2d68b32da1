"""Make the golden sets of this version: ``python -m tests.golden [DIRECTORY]``.

They are made once, when a version is released, into a directory of its name, and stay for ever.
The images, ``images``, are files, so that a set can grow by the same ones whatever Pillow is
installed.
"""

from __future__ import annotations

import csv
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from PIL import Image

from dataprep.cli import main
from dataprep.staging.plan import Share, select
from dataprep.staging.source import read_inventory
from dataprep.system.state_files import write_state
from dataprep.version import __version__
from tests.conftest import UNSIZED

PLACE = Path(__file__).parent
SHARDS = ("--num_shards", "train=2,validation=1", "--workers", "1")
ONE_SIZE = {"lmdb-raw", "hdf5-arrays", "hdf5-caffe"}
ANNOTATED = ("tfrecord", "hdf5", "webdataset", "parquet")


def write_folders(raw: Path, *, more: bool = False) -> None:
    """Six images of two classes for training, two for validation; and two that come later."""
    _put(raw / "train" / "cat", "0.jpg", "1.jpg", "2.png")
    _put(raw / "train" / "dög", "3.jpg", "4.jpg", "5.jpg")
    _put(raw / "val" / "cat", "6.png")
    _put(raw / "val" / "dög", "7.jpg")
    if more:
        _put(raw / "train" / "cat", "8.jpg")
        _put(raw / "val" / "dög", "9.jpg")


def write_listing(raw: Path) -> None:
    """Radiographs, as it were: several labels, or uncertain ones, patients; and all that is odd."""
    _put(raw, "0.jpg", "1.jpg", "2.png", "3.jpg", "4.jpg", "odd.gif")
    (raw / "torn.jpg").write_bytes((raw / "0.jpg").read_bytes()[:99])
    rows = [
        ("path", "Edema", "Nodule", "patient", "view"),
        *(("0.jpg", 1, -1, 1, "PA"), ("1.jpg", 0, 1, 1, "AP"), ("2.png", 1, 1, 2, "")),
        *(("3.jpg", "", "", 3, "PA"), ("4.jpg", 0, 1, 4, "AP"), ("odd.gif", 1, 0, 4, "PA")),
        *(("torn.jpg", 1, 0, 5, "PA"), ("gone.jpg", 1, 0, 6, "PA")),
    ]
    with (raw / "list.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)


def write_annotations(raw: Path) -> None:
    """COCO's: boxes, captions, and an image without either."""
    names = ["0.jpg", "1.jpg", "2.png"]
    _put(raw / "train", *names)
    images = [{"id": at, "file_name": n, "width": 16, "height": 16} for at, n in enumerate(names)]
    sides = ((0, 1, [4, 3, 8, 6]), (0, 7, [0, 0, 16, 8]), (1, 7, [1, 2, 3, 4]))
    boxes = [{"image_id": i, "category_id": c, "bbox": b, "iscrowd": 0} for i, c, b in sides]
    boxes.append(boxes[0] | {"iscrowd": 1})  # which stays, with its flag
    kinds = [{"id": 1, "name": "person"}, {"id": 7, "name": "train"}]
    found = {"images": images, "annotations": boxes, "categories": kinds}
    said = [{"image_id": 0, "caption": text} for text in ("A train.", "Ein Zug fährt.")]
    (raw / "instances_train.json").write_text(json.dumps(found), "utf-8")
    captions = {"images": images, "annotations": [*said, {"image_id": 2, "caption": "Nothing."}]}
    (raw / "captions_train.json").write_text(json.dumps(captions), "utf-8")


def write_masks(raw: Path) -> None:
    """Images with masks, and one without."""
    _put(raw / "train" / "cat", "0.jpg", "1.jpg", "2.png")
    (raw / "masks").mkdir()
    for name in "01":
        levels = bytes((at // 16 + int(name)) % 4 * 85 for at in range(256))
        Image.frombytes("L", (16, 16), levels).save(raw / "masks" / f"{name}.png")
    (raw.parent / "meanings.txt").write_text("nothing\n85\tcat\n170\tdog\n", "utf-8")


def _put(folder: Path, *names: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        shutil.copy(PLACE / "images" / name, folder / name)


def make(place: Path) -> None:
    """Every set, below a directory."""
    with _scratch() as (raw, outs):
        write_folders(raw)
        for name, options in UNSIZED.items():
            resized = ("--resize", "16x16") if name in ONE_SIZE else ()
            prepare(raw, outs / name, *SHARDS, *options, *resized)
        # One shard a split, no directories, and all that may be asked for besides.
        prepare(raw, outs / "recordio-one", "--sink", "recordio")
        (raw.parent / "leave.csv").write_text("key,split\ncat/0.jpg,train\n", "utf-8")
        asked = (
            *("--stats", "on", "--limit", "2", "--encoding", "png", "--color", "gray"),
            *("--layout", "flat", "--exclude", raw.parent / "leave.csv", "--seed", "7"),
            *("--center_crop", "8", "--strip_metadata", "--max_image_bytes", "9999"),
            *("--dicom_window", "40,400"),
        )
        prepare(raw, outs / "asked", *SHARDS, *asked)
        part(outs / "tfrecord", outs / "part")
        convert = ("convert", outs / "tfrecord", "--sink", "webdataset", "--to")
        command(*convert, outs / "converted")
        write_folders(raw, more=True)
        for name in ("tfrecord", "webdataset"):
            shutil.copytree(outs / name, outs / f"{name}-appended")
            prepare(raw, outs / f"{name}-appended", "--sink", name, "--append")
        lines = (
            *("key,split,decision,value,who,note", "cat/0.jpg,train,leave_out,,me,"),
            *("cat/1.jpg,train,label,dög,me,", "3.jpg,,note,,,", "class:dög,,label,dog,,"),
            "dög/4.jpg,train,split,validation,,",
        )
        (raw.parent / "decisions.csv").write_text("\n".join(lines), "utf-8")
        decided = outs / "decided"
        file = raw.parent / "decisions.csv"
        command("select", outs / "tfrecord", "--decisions", file, "--to", decided)
        prepare(raw, decided, "--append")
        shutil.copytree(outs / "tfrecord-appended", outs / "compacted")
        command("compact", outs / "compacted")
        _keep(outs, place)
    with _scratch() as (raw, outs):
        write_annotations(raw)
        listing = ("--listing", "instances_train.json,captions_train.json")
        for name in ANNOTATED:
            prepare(raw, outs / f"{name}-annotated", *listing, "--sink", name, *SHARDS[2:])
        _keep(outs, place)
    with _scratch() as (raw, outs):
        write_masks(raw)
        masks = ("--mask_dir", "masks", "--mask_classes", raw.parent / "meanings.txt")
        for name in ANNOTATED:
            prepare(raw, outs / f"{name}-masked", *masks, "--sink", name, *SHARDS[2:])
        _keep(outs, place)
    with _scratch() as (raw, outs):
        write_listing(raw)
        listed = (
            *("--listing", raw / "list.csv", "--label_columns", "Edema,Nodule"),
            *("--attribute_columns", "patient,view", "--group_by", "patient", "--folds", "2"),
        )
        for name in ("tfrecord", "recordio", "parquet"):
            words = (*listed, "--max_bad", "2", "--sink", name, "--num_shards", "2")
            prepare(raw, outs / f"{name}-listed", *words, "--workers", "1")
        (raw / "leave.csv").write_text("key,split\n4.jpg,train\n", "utf-8")
        (raw / "labels.csv").write_text("key,label\n0.jpg,Nodule\n", "utf-8")
        chosen = (
            *("--splits", "train", "--where", "width > 1", "--exclude", raw / "leave.csv"),
            *("--relabel", raw / "labels.csv", "--split_by", "fold", "--sample", "80%"),
        )
        source = f"new={outs / 'tfrecord-listed'}"
        command("select", source, *chosen, "--stratify", "--resize", "8", "--to", outs / "selected")
        _keep(outs, place)


def prepare(raw: Path, out: Path, *words: object) -> None:
    """By ``dataprep folder``."""
    command("folder", "--raw_data_dir", raw, "--local_scratch_dir", out, *words)


def command(*words: object) -> None:
    """Of dataprep; one that fails ends this."""
    if main([str(word) for word in words]):
        raise SystemExit(f"failed: {words}")


def part(out: Path, to: Path) -> None:
    """What the second of two nodes gets."""
    selection = select(read_inventory(out), share=Share(1, 2))
    for file in selection.files:
        (to / file.path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(out / file.path, to / file.path)
    assert selection.part is not None
    write_state(to / "part.json", selection.part)


@contextmanager
def _scratch() -> Iterator[tuple[Path, Path]]:
    with tempfile.TemporaryDirectory() as scratch:
        for name in ("raw", "out"):
            Path(scratch, name).mkdir()
        yield Path(scratch, "raw"), Path(scratch, "out")


def _keep(outs: Path, place: Path) -> None:
    for out in outs.iterdir():
        shutil.rmtree(place / out.name, ignore_errors=True)
        ignored = shutil.ignore_patterns(".dataprep", "lock.mdb")
        shutil.copytree(out, place / out.name, ignore=ignored)


def run(words: Sequence[str]) -> None:
    """Into a directory, or where those of this version are kept."""
    make(Path(words[0]) if words else PLACE / __version__)


if __name__ == "__main__":
    run(sys.argv[1:])
