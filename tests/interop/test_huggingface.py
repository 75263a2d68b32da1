"""Hugging Face's datasets loads OUT as it is; pandas and DuckDB read the files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import duckdb
import numpy as np
import pytest

import dataprep
from tests.conftest import FINDINGS, Cli, Made, read_labels
from tests.interop.conftest import Built

CARD: dict[str, Any] = {
    "name": "Set",
    "description": "Made up.",
    "url": "https://example.org",
    "license": "MIT",
    "creator": "Nobody",
    "date": "2026-01-01",
    "version": "1",
    "cite_as": "@misc{it}",
}


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    library: Any = pytest.importorskip("datasets", reason="needs Hugging Face's datasets")
    library.config.HF_DATASETS_CACHE = tmp_path_factory.mktemp("cache")
    library.disable_progress_bars()
    return library  # type: ignore[no-any-return]


@pytest.mark.parametrize("layout", ["split", "flat"])
@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streaming"])
def test_load_dataset_finds_splits_images_and_class_names(
    datasets: Any, made: Callable[..., Built], layout: str, streaming: bool
) -> None:
    built = made("parquet", layout=layout)
    loaded = datasets.load_dataset(str(built.out), streaming=streaming)
    assert list(loaded) == ["train", "validation"]
    for split, rows in loaded.items():
        expected = built.expected(split)
        classes = rows.features["label"]
        assert isinstance(classes, datasets.ClassLabel)
        names = [name for _, name in built.records(split).classes]
        assert [name.partition(" (")[0] for name in classes.names] == names
        assert len(set(classes.names)) == len(names)
        assert isinstance(rows.features["image"], datasets.Image)
        for row, image in zip(rows, expected, strict=True):
            assert (row["key"], row["label"]) == (image.key, image.label)
            assert row["image"].size == (row["width"], row["height"])
        files = rows.cast_column("image", datasets.Image(decode=False))
        assert [row["image"]["bytes"] for row in files] == [image.encoded for image in expected]


def test_what_else_is_in_the_directory_is_no_data(
    datasets: Any, cli: Cli, folders: Made, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    words = ("--fractions", "train=0.5,holdout=0.5", "--sink", "parquet")
    assert cli(*folders.command(out, *words, "--num_shards", "train=3,holdout=1")).code == 0
    before = datasets.load_dataset(str(out))
    dataprep.card(out, **CARD)
    assert {"records.parquet", "README.md", "croissant.json"} <= {it.name for it in out.iterdir()}
    after = datasets.load_dataset(str(out))
    assert set(after) == {"train", "holdout"}
    for split, rows in after.items():  # a split of any name
        assert rows.features == before[split].features
        assert [it["key"] for it in rows] == [it.key for it in dataprep.open(out, split)]


def test_several_labels_boxes_and_attributes(
    datasets: Any, cli: Cli, radiographs: Made, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert cli("convert", radiographs.out, "--to", out, "--sink", "parquet").code == 0
    said = read_labels(radiographs.raw.path)
    boxes = 0
    for split, rows in datasets.load_dataset(str(out)).items():
        names = rows.features["labels"].feature
        for row, example in zip(rows, dataprep.open(out, split), strict=True):
            image = said[row["key"]]
            assert {names.int2str(label) for label in row["labels"]} == image.findings
            own = {name: row[name] for name in image.attributes if row[name] is not None}
            assert own == image.attributes
            assert [tuple(box) for box in row["boxes"]] == list(example.fields.get("boxes", ()))
            assert tuple(row["box_labels"]) == example.fields.get("box_labels", ())
            boxes += len(row["boxes"])
    assert tuple(names.names) == FINDINGS
    assert boxes > 0
    back = tmp_path / "back"
    assert cli("convert", out, "--to", back, "--sink", "tfrecord").code == 0
    assert cli("diff", radiographs.out, back).code == 0


def test_a_card_tells_the_types_of_webdataset(
    datasets: Any, cli: Cli, radiographs: Made, tmp_path: Path
) -> None:
    """Which `load_dataset` else takes from five samples, where some have no boxes and no age."""
    out = tmp_path / "out"
    assert cli("convert", radiographs.out, "--to", out, "--sink", "webdataset").code == 0
    dataprep.card(out, **CARD)
    said = read_labels(radiographs.raw.path)
    boxes = 0
    for split, rows in datasets.load_dataset(str(out)).items():
        picture = "png" if "png" in rows.features else "jpg"
        assert isinstance(rows.features[picture], datasets.Image)
        for row, example in zip(rows, dataprep.open(out, split), strict=True):
            found = row["json"]
            assert row[picture].size == (example.width, example.height)
            assert (found["key"], tuple(found["labels"])) == (example.key, example.labels)
            own = {name: it for name, it in found["attributes"].items() if it is not None}
            assert own == said[example.key].attributes
            assert [tuple(box) for box in found["boxes"]] == list(example.fields.get("boxes", ()))
            assert tuple(found["box_labels"] or ()) == example.fields.get("box_labels", ())
            boxes += len(found["boxes"])
    assert boxes > 0


def test_pandas_and_duckdb_read_the_files(made: Callable[..., Built]) -> None:
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    built = made("parquet")
    expected = built.expected("train")
    files = sorted((built.out / "data").glob("train-*.parquet"))
    table = pandas.concat([pandas.read_parquet(file) for file in files])
    assert [it["bytes"] for it in table["image"]] == [image.encoded for image in expected]
    sql = f"SELECT key, label, image.bytes FROM '{built.out}/data/train-*.parquet'"
    found = {key: (label, bytes(data)) for key, label, data in duckdb.execute(sql).fetchall()}
    assert found == {image.key: (image.label, image.encoded) for image in expected}
    assert np.array_equal(table["label"], [image.label for image in expected])
