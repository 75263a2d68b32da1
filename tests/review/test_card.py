"""`dataprep card` writes what other people's programs read."""

import json
import tarfile
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from pyarrow import parquet

import dataprep
from dataprep.errors import UsageError
from dataprep.review.card import RAI
from tests.conftest import Cli, Made
from tests.review.conftest import Planted

FIELDS: dict[str, Any] = {
    "name": "Planted",
    "description": "Photographs: made up, with 'faults'.",
    "license": "https://creativecommons.org/licenses/by/4.0/",
    "creator": "Nobody",
    "url": "https://example.org/planted",
    "date": "2026-11-22",
}


ANSWERS: dict[str, str | bool] = {**dict.fromkeys(RAI, "none known"), "hasSyntheticData": True}
_HUB = {  # https://github.com/huggingface/hub-docs/blob/main/datasetcard.md
    "type": "object",
    "required": ["pretty_name", "license", "task_categories", "size_categories"],
    "properties": {
        "license": {"type": "string", "pattern": "^[a-z0-9.-]+$"},
        "license_name": {"type": "string", "pattern": "^[a-z0-9.-]+$"},
        "license_link": {"type": "string", "pattern": "^(https?://|LICENSE)"},
        "task_categories": {"type": "array", "items": {"const": "image-classification"}},
        "size_categories": {
            "type": "array",
            "items": {"pattern": "^(n<1K|[0-9]+[KMB]?<n<.*|n>.*)$"},
        },
    },
    "if": {"properties": {"license": {"const": "other"}}},
    "then": {"required": ["license_name", "license_link"]},
}


def read_with_mlcroissant(path: Path) -> list[dict[str, Any]]:
    mlcroissant = pytest.importorskip("mlcroissant", reason="mlcroissant is not installed")
    found = mlcroissant.Dataset(path)
    assert not found.metadata.issues.errors
    return list(found.records("records"))


@pytest.mark.filterwarnings("ignore")  # mlcroissant uses what pandas and rdflib deprecate
def test_croissant_is_read_by_mlcommons_own_library(planted: Planted) -> None:
    path, _ = dataprep.card(planted.out, responsible=ANSWERS, **FIELDS)
    rows = read_with_mlcroissant(path)
    table = parquet.read_table(planted.out / "records.parquet").to_pylist()
    assert [row["records/key"].decode() for row in rows if row["records/key"]] == [
        row["key"] for row in table if row["key"]
    ]
    assert len(rows) == len(table)
    assert {row["records/split"] for row in rows} >= {b"train", b"validation"}
    found_labels = {row["records/key"]: row["records/labels"] for row in rows}
    classes = json.loads((planted.out / "manifest.json").read_text())["classes"]
    assert [classes[label][0] for label in found_labels[b"c0/00.jpg"]] == ["c0"]


@pytest.mark.filterwarnings("ignore")  # likewise
def test_boxes_and_attributes_are_fields(tmp_path: Path, cli: Cli) -> None:
    raw, out = tmp_path / "raw", tmp_path / "out"
    assert cli("synthesize", "chestxray14", raw, "--size", 32).code == 0
    words = ("--raw", raw, "--out", out, "--sink", "recordio")  # which keeps no boxes
    assert cli("chestxray14", *words).code == 0
    path, _ = dataprep.card(out)
    rows = [row for row in read_with_mlcroissant(path) if row["records/boxes"] is not None]
    boxes = [box for row in rows for box in row["records/boxes"]]
    assert boxes
    for left, top, right, bottom in boxes:
        assert 0 <= left < right <= 1
        assert 0 <= top < bottom <= 1
    assert {row["records/gender"] for row in rows} <= {b"F", b"M"}


def test_what_people_say_is_in_the_vocabulary(planted: Planted, cli: Cli, tmp_path: Path) -> None:
    path, _ = dataprep.card(planted.out, responsible=ANSWERS, **FIELDS)
    found = json.loads(path.read_text())
    assert found["rai:hasSyntheticData"] is True
    assert found["rai:dataBiases"] == "none known"
    assert found["prov:wasGeneratedBy"].startswith("dataprep ")
    words = [word for name, value in FIELDS.items() for word in (f"--{name}", value)]
    texts = tmp_path / "rai.toml"
    texts.write_text('dataBiases = "many"\nhasSyntheticData = false')
    result = cli("card", planted.out, *words, "--rai", texts)
    assert result.code == 0
    assert "NeurIPS also asks for dataLimitations, personalSensitiveInformation" in result.err
    assert "hasSyntheticData" not in result.err
    texts.write_text('hasSyntheticData = "no"')
    result = cli("card", planted.out, *words, "--rai", texts)
    assert result.code == 2
    assert "--rai has hasSyntheticData = 'no'; expected true or false" in result.error


@pytest.mark.parametrize(
    ("license_", "expected"),
    [
        ("https://creativecommons.org/licenses/by-nc/4.0/", {"license": "cc-by-nc-4.0"}),
        ("https://creativecommons.org/publicdomain/zero/1.0/", {"license": "cc0-1.0"}),
        ("MIT", {"license": "mit"}),
        (
            "https://example.org/terms",
            {
                "license": "other",
                "license_name": "planted-license",
                "license_link": "https://example.org/terms",
            },
        ),
        (
            "LicenseRef-Ours 2",
            {
                "license": "other",
                "license_name": "licenseref-ours-2",
                "license_link": "https://example.org/planted",
            },
        ),
    ],
)
def test_the_license_is_as_the_hub_has_it(
    planted: Planted, license_: str, expected: dict[str, str]
) -> None:
    _, path = dataprep.card(planted.out, **{**FIELDS, "license": license_})
    front = yaml.safe_load(path.read_text().split("---\n")[1])
    jsonschema.validate(front, _HUB)
    assert {name: value for name, value in front.items() if "license" in name} == expected


def test_a_card_is_no_foreign_file(tiny: Made, tmp_path: Path, cli: Cli) -> None:
    out = tiny.copy(tmp_path / "out")
    for path in dataprep.card(out):
        assert path.exists()
    assert cli("verify", out).code == 0
    staged = tmp_path / "staged"
    assert cli("stage", out, "--to", staged).code == 0
    assert cli("stage", out, "--to", staged, "--status").code == 0
    assert cli("convert", out, "--to", tmp_path / "lmdb", "--sink", "lmdb").code == 0


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
        "license": "cc-by-4.0",
        "task_categories": ["image-classification"],
        "task_ids": ["multi-class-image-classification"],
        "size_categories": ["n<1K"],
    }
    assert "## dataBiases\n\nmany\n" in text


def test_the_card_of_webdataset_tells_the_types_of_its_parts(
    radiographs: Made, cli: Cli, tmp_path: Path
) -> None:
    """Of every part and field that is in some sample, as ``load_dataset`` reads them."""
    out = tmp_path / "out"
    assert cli("convert", radiographs.out, "--to", out, "--sink", "webdataset").code == 0
    _, page = dataprep.card(out, **FIELDS)
    front = yaml.safe_load(page.read_text().split("---\n")[1])
    told = {it.pop("name"): it for it in front["dataset_info"]["features"]}
    said = {it.pop("name"): it for it in told.pop("json")["struct"]}
    attributes = {it["name"] for it in said.pop("attributes")["struct"]}
    parts, keys, names = set[str](), set[str](), set[str]()
    for path in out.glob("*/*.tar"):
        with tarfile.open(path) as archive:
            for member in archive:
                parts.add(member.name.partition(".")[2])
                if member.name.endswith(".json"):
                    stream = archive.extractfile(member)
                    assert stream is not None
                    sample = json.load(stream)
                    names |= sample.pop("attributes").keys()
                    keys |= sample.keys()
    assert {*told} == {*parts, "__key__", "__url__"} - {"json"}
    assert ({*said}, attributes) == (keys, names)
    assert said["boxes"] == {"list": {"list": "float64"}}
    assert said["labels"] == said["box_labels"] == {"list": "int64"}


def test_what_a_data_set_knows_of_itself_need_not_be_given(tiny: Made, tmp_path: Path) -> None:
    out = tiny.copy(tmp_path / "out")
    path, _ = dataprep.card(out)
    assert json.loads(path.read_text())["name"] == "ILSVRC2012"
    path, _ = dataprep.card(out, name="Tiny")
    assert json.loads(path.read_text())["name"] == "Tiny"


def test_a_set_without_a_page_and_a_date_has_a_card(
    planted: Planted, cli: Cli, tmp_path: Path
) -> None:
    given = {**FIELDS, "license": "Ours"}
    words = [f"--{name}={given[name]}" for name in ("name", "description", "license", "creator")]
    result = cli("card", planted.out, *words)
    assert result.code == 0, result
    assert "note: catalogues also ask for --url, --date\n" in result.err
    path, page = map(Path, result.out.splitlines())
    assert not {"url", "datePublished"} & set(json.loads(path.read_text()))
    front, text = page.read_text().split("---\n")[1:3]
    assert "license_link" not in yaml.safe_load(front)
    assert "- License: Ours\n- Version 1.0.0\n" in text
    assert "Home page" not in text
    assert "catalogues" not in cli("card", planted.out, *words, "--url=x", "--date=y").err


@pytest.mark.parametrize("date", ["yesterday", "2026-13-45", "2026"])
def test_a_date_is_one_that_catalogues_take(planted: Planted, cli: Cli, date: str) -> None:
    words = (planted.out, "--name", "n", "--description", "d", "--license", "MIT", "--creator", "c")
    assert f"--date '{date}': expected YYYY-MM-DD" in cli("card", *words, "--date", date).error


def test_what_is_missing_is_named(planted: Planted, cli: Cli, tmp_path: Path) -> None:
    result = cli("card", planted.out, "--name", "x", "--url", "https://example.org")
    assert result.code == 2
    assert "a card needs --description, --license, --creator; catalogues" in result.error
    texts = tmp_path / "rai.toml"
    texts.write_text('dataBias = "typed wrongly"')
    words = [word for name, value in FIELDS.items() for word in (f"--{name}", value)]
    result = cli("card", planted.out, *words, "--rai", texts)
    assert result.code == 2
    assert "--rai has 'dataBias'; expected some of dataLimitations" in result.error
    with pytest.raises(UsageError, match="a card has no 'licence'"):
        dataprep.card(planted.out, licence="MIT")
