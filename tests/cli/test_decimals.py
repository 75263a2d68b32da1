"""Decimal numbers: from a listing or another set's shards into every format, and to conditions."""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import numpy as np
import pytest
from pyarrow import parquet

import dataprep
from dataprep.formats.tfrecord import frames, unframe
from dataprep.sealed.set import SealedSet
from dataprep_schemas import example_pb2
from dataprep_schemas.fields import Field
from tests.conftest import Cli, everyday, rows_of
from tests.fuzz.raw_readers import picture

SCORES = {f"{at}.jpg": score for at, score in enumerate(("0.143", "1", "-2.5e-3", "", "12.75"))}
KNOWN = {key: float(text) for key, text in SCORES.items() if text}
SINKS = ("tfrecord", "webdataset", "hdf5", "parquet")


@pytest.fixture
def words(tmp_path: Path) -> tuple[str, ...]:
    """The command that prepares five images, without OUT."""
    (tmp_path / "raw").mkdir()
    for number, key in enumerate(SCORES):
        (tmp_path / "raw" / key).write_bytes(picture(number))
    rows = [f"{key},a,{score},0{at}.5" for at, (key, score) in enumerate(SCORES.items())]
    (tmp_path / "list.csv").write_text("\n".join(["path,label,score,number", *rows]))
    options = ("--listing", f"{tmp_path / 'list.csv'}", "--attribute_columns", "all")
    return ("folder", "--raw", f"{tmp_path / 'raw'}", *options, "--workers", "1")


def scores_of(out: Path, where: str | None = None) -> dict[str, float]:
    with dataprep.open(out, "train", where=where) as records:
        return {one.key: one.fields["score"] for one in records if "score" in one.fields}


# Writers and readers are tried by tests/formats/test_testing.py, of every format.
@pytest.mark.parametrize("sink", everyday(["webdataset"], SINKS))
def test_they_come_back_from_every_format(
    cli: Cli, words: tuple[str, ...], tmp_path: Path, sink: str
) -> None:
    out, again = tmp_path / "out", tmp_path / "again"
    result = cli(*words, "--out", out, "--sink", sink)
    assert result.code == 0, result
    # 01.5 may be an ID.
    kinds = (Field("score", "float"), Field("number", "text"))
    assert SealedSet.read(out).info.fields == kinds
    assert scores_of(out) == pytest.approx(KNOWN)
    assert scores_of(out, "score > 0.5") == pytest.approx({"1.jpg": 1.0, "4.jpg": 12.75})
    assert {row["key"]: row["score"] for row in rows_of(out)} == {**KNOWN, "3.jpg": None}
    for level in ("records", "decode"):
        assert cli("verify", out, "--level", level).code == 0
    with dataprep.open(out, "train", where="score > 12") as records:
        assert "score 12.75" in repr(records)
    assert cli("lint", out).code in (0, 1)
    to = SINKS[SINKS.index(sink) - 1]
    for made in (("convert", out, "--sink", to), ("select", out, "--where", "score < 1")):
        result = cli(*made, "--to", again / made[0])
        assert result.code == 0, result
        assert cli("verify", again / made[0], "--level", "records").code == 0
    # All digits, if the format has them: the table does.
    wanted = pytest.approx(KNOWN) if to == "tfrecord" else KNOWN
    assert scores_of(again / "convert") == wanted
    assert {*scores_of(again / "select")} == {"0.jpg", "2.jpg"}
    assert cli("diff", out, again / "convert").code == 0


def test_readers_of_others_see_numbers(cli: Cli, words: tuple[str, ...], tmp_path: Path) -> None:
    for sink in SINKS:
        assert cli(*words, "--out", tmp_path / sink, "--sink", sink).code == 0
    order = [one.key for one in dataprep.open(tmp_path / "parquet", "train")]
    wanted = [KNOWN.get(key) for key in order]
    (path,) = (tmp_path / "parquet" / "data").iterdir()
    assert parquet.read_table(path)["score"].to_pylist() == wanted
    with h5py.File(tmp_path / "hdf5" / "train.h5") as file:
        column = file["attributes/score"]
        assert column.dtype == np.float64
        assert np.isnan(column.attrs["missing"])
        assert [None if np.isnan(it) else it for it in column[:]] == wanted
    (file,) = SealedSet.read(tmp_path / "tfrecord").manifest.splits["train"].shards[0].files[:1]
    data = (tmp_path / "tfrecord" / file.path).read_bytes()
    examples = [
        example_pb2.Example.FromString(unframe(data[at - 12 : end + 4]))
        for at, end in frames(
            lambda at, size: data[at : at + size], lambda end: min(end, len(data))
        )
    ]
    found = [[*it.features.feature["attribute/score"].float_list.value] for it in examples]
    assert found == [[] if it is None else [pytest.approx(it)] for it in wanted]


def test_those_of_others_are_numbers(cli: Cli, words: tuple[str, ...], tmp_path: Path) -> None:
    assert cli(*words, "--out", tmp_path / "theirs", "--sink", "parquet").code == 0
    (path,) = (tmp_path / "theirs" / "data").iterdir()
    table = parquet.read_table(path).replace_schema_metadata(None)
    raw = tmp_path / "others"
    raw.mkdir()
    parquet.write_table(table, raw / "train.parquet")
    words = ("shards", "--raw", f"{raw}", "--attribute_fields", "score", "--label_base", "0")
    result = cli(*words, "--out", tmp_path / "out", "--workers", 1)
    assert result.code == 0, result
    assert SealedSet.read(tmp_path / "out").info.fields == (Field("score", "float"),)
    found = [*scores_of(tmp_path / "out").values()]
    assert sorted(found) == pytest.approx(sorted(KNOWN.values()))


def test_lines_of_json_have_them_too(cli: Cli, words: tuple[str, ...], tmp_path: Path) -> None:
    rows = [{"path": key, "label": "a", "score": KNOWN.get(key)} for key in SCORES]
    (tmp_path / "list.jsonl").write_text("\n".join(map(json.dumps, rows)))
    words = tuple(word.replace("list.csv", "list.jsonl") for word in words)
    assert cli(*words, "--out", tmp_path / "out").code == 0
    assert scores_of(tmp_path / "out") == pytest.approx(KNOWN)
