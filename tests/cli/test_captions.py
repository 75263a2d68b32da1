"""Captions: from a listing into every format that has a place for them, and back."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

import dataprep
from dataprep.errors import UsageError
from dataprep.plugins import load_sink
from dataprep.sealed.set import SealedSet
from dataprep_schemas.fields import CAPTIONS
from tests.conftest import FORMATS, Cli, Made, Raw, everyday, rows_of
from tests.datasets.test_folder_listing import write_listing
from tests.finished_sets import examples_of

KEEPING = [name for name in FORMATS if "texts" in load_sink(FORMATS[name][1]).keeps]
SAID: list[Any] = [None, "a quiet airfield", ["zwei Bären, 左", 'a "bar"'], []]


@pytest.fixture(scope="module")
def captioned(folders: Made, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The class folders, listed with none, one or two captions an image."""
    place = tmp_path_factory.mktemp("captioned")
    paths = sorted(path for path in folders.raw.path.glob("*/*") if path.is_file())
    rows: list[dict[str, object]] = [
        {
            "path": str(path.relative_to(folders.raw.path)),
            "label": path.parent.name,
            "split": "test" if number % 5 == 0 else "train",
            "text": SAID[number % len(SAID)],
        }
        for number, path in enumerate(paths)
    ]
    listing = write_listing(place / "list.jsonl", rows)
    options = ("--listing", listing, "--caption_column", "text", "--num_shards", "train=2,test=1")
    raw = Raw(folders.raw.path, (*options, "--workers", "1"), "folder")
    assert Cli()(*raw.command(place / "out")).code == 0
    return Made(raw, place / "out", {})


def expected(made: Made) -> dict[str, tuple[str, ...]]:
    found = {}
    for line in Path(made.raw.options[1]).read_text("utf-8").splitlines():
        row = json.loads(line)
        text = row["text"]
        found[row["path"]] = tuple([text] if isinstance(text, str) else text or ())
    return found


def captions_of(out: Path) -> dict[str, tuple[str, ...]]:
    return {one.key: one.fields.get("captions", ()) for one in examples_of(out)}


def test_most_formats_keep_them() -> None:
    kept = {"tfrecord", "webdataset", "parquet", "hdf5", "hdf5-arrays", "arrayrecord"}
    assert {*KEEPING} == kept & {*FORMATS}


# Each format's own way to keep them is tried by tests/formats/test_testing.py.
@pytest.mark.parametrize("name", everyday(["webdataset"], KEEPING[1:]))
def test_every_format_takes_and_gives_them_back(
    cli: Cli, captioned: Made, tmp_path: Path, name: str
) -> None:
    """Those of the TFRecords that are converted come from the raw data."""
    if name == "arrayrecord":
        pytest.importorskip("array_record", reason="needs array-record")
    out = tmp_path / "out"
    assert captions_of(captioned.out) == expected(captioned)
    assert cli("convert", captioned.out, "--to", out, "--workers", 1, *FORMATS[name]).code == 0
    assert captions_of(out) == expected(captioned)
    assert CAPTIONS in SealedSet.read(out).info.fields
    assert cli("verify", out, "--level", "records").code == 0
    assert cli("diff", out, captioned.out).code == 0 or name == "hdf5-arrays"


def test_their_loss_is_said_and_the_table_has_them(
    cli: Cli, captioned: Made, tmp_path: Path
) -> None:
    made, converted = tmp_path / "made", tmp_path / "converted"
    for out, words in (
        (made, captioned.command(made)),
        (converted, ["convert", captioned.out, "--to", converted]),
    ):
        result = cli(*words, "--sink", "recordio")
        assert result.code == 0, result
        assert "sink recordio has no place for captions: left out" in result.out
        assert SealedSet.read(out).info.fields == ()
        assert {*captions_of(out).values()} == {()}
        table = {row["key"]: tuple(row["captions"] or ()) for row in rows_of(out)}
        assert table == expected(captioned)
        assert cli("diff", out, captioned.out).code == 0
    records = dataprep.open(converted, "train")
    assert [tuple(texts or ()) for texts in records.values("captions").to_pylist()] == [
        expected(captioned)[one.key] for one in records
    ]


def test_what_is_selected_keeps_them_and_a_caption_decides(
    cli: Cli, captioned: Made, tmp_path: Path
) -> None:
    where = ("--where", "list_contains(captions, 'a quiet airfield')")
    assert cli("select", captioned.out, "--to", tmp_path / "some", *where).code == 0
    wanted = {key: texts for key, texts in expected(captioned).items() if texts == (SAID[1],)}
    assert captions_of(tmp_path / "some") == wanted
    assert cli("diff", tmp_path / "some", captioned.out).code == 1
    with dataprep.open(captioned.out, "test", where="captions is not null") as records:
        assert all("captions" in one.fields for one in records)


def test_another_caption_is_another_example(cli: Cli, captioned: Made, tmp_path: Path) -> None:
    listing = tmp_path / "list.jsonl"
    text = Path(captioned.raw.options[1]).read_text("utf-8")
    listing.write_text(text.replace("a quiet airfield", "a loud airfield", 1), "utf-8")
    assert cli(*captioned.command(tmp_path / "out", "--listing", listing)).code == 0
    result = cli("diff", tmp_path / "out", captioned.out)
    assert result.code == 1
    assert "1 with another image or fields" in result.out


def test_a_set_without_them_may_be_joined(
    cli: Cli, captioned: Made, folders: Made, tmp_path: Path
) -> None:
    sets = (f"a={captioned.out}", f"b={folders.out}")
    result = cli("select", *sets, "--to", tmp_path / "both")
    assert result.code == 0, result
    wanted = {f"a/{key}": texts for key, texts in expected(captioned).items()}
    wanted |= {f"b/{key}": () for key in expected(captioned)}
    assert captions_of(tmp_path / "both") == wanted
    assert cli("verify", tmp_path / "both", "--level", "records").code == 0


def test_a_table_that_was_exchanged_is_noticed(cli: Cli, captioned: Made, tmp_path: Path) -> None:
    out = captioned.copy(tmp_path / "out")
    path = out / "records.parquet"
    table = parquet.read_table(path)
    place = table.column_names.index("captions")
    other = pa.array([["else"]] * len(table), pa.list_(pa.string()))
    parquet.write_table(table.set_column(place, table.schema.field(place), other), path)
    result = cli("verify", out, "--level", "records")
    assert result.code != 0
    assert "its captions is" in result.out + result.err


@pytest.mark.thorough  # test_append grows sets every day
def test_a_set_grows_by_images_with_captions(cli: Cli, captioned: Made, tmp_path: Path) -> None:
    half, whole = tmp_path / "half.jsonl", Path(captioned.raw.options[1])
    lines = whole.read_text("utf-8").splitlines(keepends=True)
    half.write_text("".join(lines[::2]), "utf-8")
    raw = replace(captioned.raw, options=("--listing", str(half), "--caption_column", "text"))
    command = raw.command(tmp_path / "out", "--workers", 1)
    assert cli(*command).code == 0
    half.write_text("".join(lines), "utf-8")
    result = cli(*command, "--append")
    assert result.code == 0, result
    assert captions_of(tmp_path / "out") == expected(captioned)


def test_training_gets_them(captioned: Made, tiny: Made) -> None:
    records, wanted = dataprep.open(captioned.out, "train"), expected(captioned)
    both = dataprep.mix({"a": records, "b": records})
    for examples in (records, both):
        for batch in examples.loader(4, size=16, framework="numpy", fields=["captions"]):
            keys = [examples[number].key for number in batch.numbers]
            assert batch.fields["captions"] == [wanted[key] for key in keys]
    plain = dataprep.open(tiny.out, "train")
    with pytest.raises(UsageError, match="have no field 'captions'; there are: none"):
        plain.loader(4, size=16, framework="numpy", fields=["captions"])
    assert all(batch.fields == {} for batch in plain.loader(4, size=16, framework="numpy"))
    if find_spec("torch") is not None:
        dataset = records.to_torch(fields=["key", "captions"])
        for number in range(len(records)):
            _, _, fields = dataset[number]
            assert fields["captions"] == wanted[fields["key"]]


def test_people_are_shown_them(cli: Cli, captioned: Made, tmp_path: Path) -> None:
    card = ("--license", "MIT", "--creator", "us", "--name", "n", "--description", "d")
    out = captioned.copy(tmp_path / "out")
    assert cli("card", out, *card).code == 0
    (record_set,) = json.loads((out / "croissant.json").read_text())["recordSet"]
    (field,) = [one for one in record_set["field"] if one["name"] == "captions"]
    assert (field["dataType"], field["isArray"]) == ("sc:Text", True)
    assert '"image-to-text"' in (out / "README.md").read_text()
    assert ' "a quiet airfield"' in repr(dataprep.open(out, "train", where="captions is not null"))


@pytest.mark.thorough
def test_the_report_has_them(captioned: Made, tmp_path: Path) -> None:
    if find_spec("matplotlib") is not None and find_spec("jinja2") is not None:
        page = dataprep.report(captioned.out, to=tmp_path / "report.html").read_text()
        assert "a quiet airfield" in page


@pytest.mark.parametrize(
    ("name", "row", "said"),
    [
        ("l.jsonl", {"text": 5}, "caption 5: expected a text, or a list of texts"),
        ("l.parquet", {"text": [1]}, r"caption \[1\]: expected a text, or a list of texts"),
        ("l.csv", {"caption": "x"}, "has no columns text, expected one.*--caption_column"),
    ],
)
def test_what_is_no_caption_is_one_line(
    cli: Cli, folders: Made, tmp_path: Path, name: str, row: dict[str, object], said: str
) -> None:
    listing = write_listing(tmp_path / name, [{"path": "bar/0.jpg", "label": "x", **row}])
    words = ("--listing", listing, "--caption_column", "text")
    result = cli("folder", "--raw", folders.raw.path, "--out", tmp_path / "out", *words)
    assert result.code == 1
    assert re.search(said, result.err)
