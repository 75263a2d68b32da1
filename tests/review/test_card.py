"""`dataprep card` writes what other people's programs read."""

import json
from pathlib import Path

import pytest
import yaml

import dataprep
from dataprep.errors import UsageError
from dataprep.review.card import RAI
from tests.conftest import Cli, Made
from tests.review.conftest import Planted

FIELDS = {
    "name": "Planted",
    "description": "Photographs: made up, with 'faults'.",
    "license": "https://creativecommons.org/licenses/by/4.0/",
    "creator": "Nobody",
    "url": "https://example.org/planted",
    "date": "2026-11-22",
}


@pytest.mark.filterwarnings("ignore")  # mlcroissant uses what pandas and rdflib deprecate
def test_croissant_is_read_by_mlcommons_own_library(planted: Planted) -> None:
    mlcroissant = pytest.importorskip("mlcroissant", reason="mlcroissant is not installed")
    path, _ = dataprep.card(planted.out, responsible=dict.fromkeys(RAI, "none known"), **FIELDS)
    found = mlcroissant.Dataset(path)
    assert not found.metadata.issues.errors
    rows = list(found.records("records"))
    assert len(rows) == dataprep.inspect(planted.out).splits[0].images_found + sum(
        split.images_found for split in dataprep.inspect(planted.out).splits[1:]
    ) + len([row for row in rows if row["records/status"] == b"ignored"])
    assert {row["records/split"] for row in rows} >= {b"train", b"validation"}
    found_labels = {row["records/key"]: row["records/labels"] for row in rows}
    classes = json.loads((planted.out / "manifest.json").read_text())["classes"]
    assert [classes[label][0] for label in found_labels[b"c0/00.jpg"]] == ["c0"]


def test_every_shard_is_there_with_its_hash(planted: Planted) -> None:
    path, _ = dataprep.card(planted.out, **FIELDS)
    files = {entry["@id"]: entry for entry in json.loads(path.read_text())["distribution"]}
    manifest = json.loads((planted.out / "manifest.json").read_text())
    for split in manifest["splits"].values():
        for shard in split["shards"]:
            for file in shard["files"]:
                assert files[file["path"]]["sha256"] == file["sha256"]
    assert files["records.parquet"]["sha256"] == manifest["records_table"]["sha256"]


def test_the_front_matter_is_yaml_of_what_the_hub_knows(planted: Planted) -> None:
    _, path = dataprep.card(planted.out, responsible={"dataBiases": "many"}, **FIELDS)
    _, front, text = path.read_text().split("---\n", 2)
    assert yaml.safe_load(front) == {
        "pretty_name": "Planted",
        "license": "other",
        "license_name": FIELDS["license"],
        "task_categories": ["image-classification"],
        "task_ids": ["multi-class-image-classification"],
        "size_categories": ["n<1K"],
    }
    assert "## dataBiases\n\nmany\n" in text


def test_what_a_data_set_knows_of_itself_need_not_be_given(tiny: Made, tmp_path: Path) -> None:
    out = tiny.copy(tmp_path / "out")
    path, _ = dataprep.card(out)
    assert json.loads(path.read_text())["name"] == "ILSVRC2012"
    path, _ = dataprep.card(out, name="Tiny")
    assert json.loads(path.read_text())["name"] == "Tiny"


def test_what_is_missing_is_named(planted: Planted, cli: Cli, tmp_path: Path) -> None:
    result = cli("card", planted.out, "--name", "x", "--url", "https://example.org")
    assert result.code == 2
    assert "a card needs --description, --license, --creator, --date" in result.error
    texts = tmp_path / "rai.toml"
    texts.write_text('dataBias = "typed wrongly"')
    words = [word for name, value in FIELDS.items() for word in (f"--{name}", value)]
    result = cli("card", planted.out, *words, "--rai", texts)
    assert result.code == 2
    assert "--rai has 'dataBias'; expected some of dataCollection" in result.error
    with pytest.raises(UsageError, match="a card has no 'licence'"):
        dataprep.card(planted.out, licence="MIT")
