"""``dataprep diff``: whether two data sets hold the same, whatever their form."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import dataprep
from dataprep.sealed.diff import diff
from dataprep.sealed.set import SealedSet
from tests.conftest import ENCODED, Cli, Made, Shelf, everyday


@pytest.mark.parametrize("name", everyday(["parquet"], ENCODED))
def test_formats_do_not_matter(cli: Cli, shelf: Shelf, name: str) -> None:
    one, other = shelf("tfrecord").out, shelf(name).out
    for a, b in ((one, other), (other, one)):
        result = cli("diff", a, b, "--workers", 2)
        assert result.code == 0, result
        assert result.out.splitlines() == [
            "train: the same 24 examples, in the same order",
            "validation: the same 6 examples, in the same order",
            "same: keys, labels, fields and image bytes",
        ]


def test_arrays_are_compared_with_images_pixel_by_pixel(cli: Cli, shelf: Shelf) -> None:
    png = shelf("tfrecord", "--resize", "16x16", "--encoding", "png").out
    for name in ("lmdb-raw", "hdf5-arrays", "hdf5-caffe"):
        result = cli("diff", png, shelf(name).out, "--workers", 1)
        assert result.code == 0, result
        assert "fields and pixels" in result.out


def test_another_order_is_said_and_is_no_difference(cli: Cli, tiny: Made, tmp_path: Path) -> None:
    assert cli(*tiny.command(tmp_path, "--seed", 4)).code == 0
    result = cli("diff", tiny.out, tmp_path)
    assert result.code == 0, result
    assert "train: the same 24 examples, in another order" in result.out
    assert "validation: the same 6 examples, in the same order" in result.out


Changed = Callable[[Callable[[Path], object]], Path]


@pytest.fixture
def changed(cli: Cli, tiny: Made, tmp_path: Path) -> Changed:
    """Returns changed(change) -> the tiny set as another format, of which a file was changed."""

    def make(change: Callable[[Path], object]) -> Path:
        raw, out = tiny.raw.copy(tmp_path / "raw"), tmp_path / "other"
        change(raw.path / "train" / key_of(tiny))
        words = raw.command(out, "--sink", "webdataset", "--num_shards", "2")
        assert cli(*words).code == 0
        return out

    return make


def key_of(tiny: Made) -> str:
    return dataprep.open(tiny.out, "train")[0].key


def test_a_changed_example_is_named(cli: Cli, tiny: Made, changed: Changed) -> None:
    def repaint(image: Path) -> None:
        last = max(path for path in image.parent.iterdir() if path != image)
        shutil.copy(last, image)

    other = changed(repaint)
    result = cli("diff", tiny.out, other)
    assert result.code == 1
    assert result.out.splitlines()[:2] == [
        f"train: another image, or something else is said of it: {key_of(tiny)}",
        f"train: 0 only in {tiny.out}, 0 only in {other}, "
        "0 with other labels, 1 with another image or fields",
    ]
    assert "validation: the same 6 examples" in result.out
    assert f"{tiny.out} and {other} do not hold the same examples" in result.error


def test_a_missing_and_a_new_key_are_named(cli: Cli, tiny: Made, changed: Changed) -> None:
    other = changed(lambda image: image.rename(image.with_name("new\nname.JPEG")))
    result = cli("diff", tiny.out, other)
    assert result.code == 1
    folder = key_of(tiny).partition("/")[0]
    assert f"train: only in {tiny.out}: {key_of(tiny)}\n" in result.out
    assert f"train: only in {other}: {folder}/new\\nname.JPEG\n" in result.out
    assert "train: 1 only in" in result.out


def test_a_missing_split_is_a_difference(cli: Cli, tiny: Made, shelf: Shelf) -> None:
    alone = shelf("tfrecord", "--splits", "train").out
    for a, b in ((tiny.out, alone), (alone, tiny.out)):
        result = cli("diff", a, b)
        assert result.code == 1
        assert f"{alone} has no split validation" in result.out
        assert "train: the same 24 examples" in result.out


def test_a_damaged_or_missing_set_is_one_line(
    cli: Cli, tiny: Made, shelf: Shelf, tmp_path: Path
) -> None:
    result = cli("diff", tiny.out, tmp_path)
    assert result.code == 1
    assert "no manifest.json here" in result.error
    other = shelf("webdataset").copy(tmp_path / "other")
    shard = other / SealedSet.read(other).manifest.splits["train"].shards[0].files[0].path
    shard.write_bytes(shard.read_bytes()[:700])
    result = cli("diff", shelf("hdf5-arrays").out, other)
    assert result.code == 1
    assert str(shard) in result.error


def test_what_a_format_has_no_place_for_is_no_difference(
    cli: Cli, radiographs: Made, tmp_path: Path
) -> None:
    words = ("convert", radiographs.out, "--to", tmp_path, "--sink", "recordio", "--workers", 1)
    assert cli(*words).code == 0
    assert diff(radiographs.out, tmp_path, threads=1).same


@pytest.mark.parametrize(
    ("column", "values"),
    everyday(
        [
            ("Finding Labels", ("Hernia|Mass", "Edema")),
            ("Patient Age", ("999", "30")),  # the first is not taken for an age: it is not there
        ],
        [("View Position", ("AP", "PA")), ("Bbox [x", ("7.5", "9.25"))],
    ),
)
def test_another_label_or_attribute_is_named(
    cli: Cli, radiographs: Made, tmp_path: Path, column: str, values: tuple[str, str]
) -> None:
    raw, other = radiographs.raw.copy(tmp_path / "raw"), tmp_path / "other"
    table = "BBox_List_2017.csv" if column == "Bbox [x" else "Data_Entry_2017_v2020.csv"
    with (raw.path / table).open(encoding="ascii", newline="") as file:
        header, first, *lines = csv.reader(file)
    at = next(at for at, name in enumerate(header) if name.startswith(column))
    first[at] = next(value for value in values if value != first[at])
    with (raw.path / table).open("w", encoding="ascii", newline="") as file:
        csv.writer(file).writerows([header, first, *lines])
    assert cli(*raw.command(other)).code == 0
    found = diff(radiographs.out, other, threads=1)
    assert not found.same
    assert sum(split.changed for split in found.splits) == 1
    (named,) = (name for split in found.splits for name in split.examples)
    assert named.endswith(first[0])


def test_masks_are_compared_where_both_store_them(cli: Cli, tmp_path: Path) -> None:
    raw, levels = tmp_path / "raw", np.arange(24, dtype=np.uint8).reshape(4, 6) // 12
    for folder, picture in (("images/a", np.full((4, 6, 3), 90, np.uint8)), ("masks/a", levels)):
        (raw / folder).mkdir(parents=True)
        Image.fromarray(picture).save(raw / folder / "1.png")
    words = ("folder", "--raw_data_dir", raw, "--inside", "images", "--mask_dir", "masks")

    def made(name: str, sink: str) -> Path:
        result = cli(*words, "--local_scratch_dir", tmp_path / name, "--sink", sink)
        assert result.code == 0, result
        return tmp_path / name

    one, same, none = made("one", "tfrecord"), made("same", "webdataset"), made("none", "recordio")
    Image.fromarray(levels[::-1]).save(raw / "masks/a/1.png")  # as many pixels of each number
    other = made("other", "tfrecord")
    assert cli("diff", one, same).out.endswith(
        "\nsame: keys, labels, fields, masks and image bytes\n"
    )
    assert cli("diff", one, none).out.endswith(
        "\nsame: keys, labels, fields and image bytes; of masks only the numbers: one of them "
        "stores none\n"
    )
    assert cli("diff", one, other).code == 1
    assert diff(one, other, threads=1).splits[0].changed == 1
