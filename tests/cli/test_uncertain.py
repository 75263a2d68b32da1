"""Labels that nobody is sure of: from a listing to what training gets."""

from __future__ import annotations

import csv
import io
from importlib.util import find_spec
from pathlib import Path

import pytest
from PIL import Image

import dataprep
from tests.conftest import Cli, everyday, rows_of
from tests.datasets.test_folder import write_archive, write_tree

CLASSES = ("Edema", "Lung Opacity", "Fracture")
MARKS = (("1", "", "-1"), ("-1", "-1", "1"), ("0", "1", ""), ("", "", ""))
LABELS = {f"{at}.png": [int(mark or 0) for mark in MARKS[at % 4]] for at in range(12)}
COLUMNS = ("--label_columns", ",".join(CLASSES), "--workers", "1")


def words_of(place: Path, *, packed: bool = False) -> tuple[str, ...]:
    """The command that prepares twelve images, without OUT."""
    images = {}
    for number, key in enumerate(LABELS):
        file = io.BytesIO()
        Image.new("L", (16, 16), 20 * number).save(file, "PNG")
        images[key] = file.getvalue()
    if packed:
        write_archive(place / "raw/images.tar", images)
    else:
        write_tree(place / "raw", images)
    with (place / "list.csv").open("w", newline="") as text:
        rows = [(key, *MARKS[number % 4]) for number, key in enumerate(LABELS)]
        csv.writer(text).writerows([("path", *CLASSES), *rows])
    return ("folder", "--raw", f"{place / 'raw'}", "--listing", f"{place / 'list.csv'}", *COLUMNS)


def labels_of(out: Path) -> dict[str, list[int]]:
    with dataprep.open(out, "train") as records:
        assert [name for name, _ in records.classes][:3] == [*CLASSES]
        return dict(zip([one.key for one in records], records.labels.tolist(), strict=True))


@pytest.mark.parametrize("sink", everyday(["recordio"], ["tfrecord"]))
def test_they_are_minus_one_for_training_whatever_the_format(
    cli: Cli, tmp_path: Path, sink: str
) -> None:
    result = cli(*words_of(tmp_path), "--out", tmp_path / "out", "--sink", sink)
    assert result.code == 0, result
    lost = "no place for uncertain_labels: left out" in result.out
    assert lost == (sink == "recordio")
    assert labels_of(tmp_path / "out") == LABELS
    table = {row["key"]: row["uncertain_labels"] for row in rows_of(tmp_path / "out")}
    assert table["0.png"] == "Fracture"
    assert table["1.png"] == "Edema|Lung Opacity"
    assert table["2.png"] is table["3.png"] is None
    records = dataprep.open(tmp_path / "out", "train")
    for batch in records.loader(4, framework="numpy"):
        keys = [records[number].key for number in batch.numbers]
        assert batch[1].tolist() == [LABELS[key] for key in keys]
    assert all(
        one.labels == tuple(at for at in range(3) if LABELS[one.key][at] == 1) for one in records
    )
    if find_spec("torch") is not None:
        targets = [records.to_torch()[number][1].tolist() for number in range(len(records))]
        assert targets == records.labels.tolist()


def test_they_stay_with_what_is_made_of_the_set(cli: Cli, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert cli(*words_of(tmp_path), "--out", out).code == 0
    assert cli("convert", out, "--to", tmp_path / "same", "--sink", "webdataset").code == 0
    assert labels_of(tmp_path / "same") == LABELS
    assert cli("verify", tmp_path / "same", "--level", "records").code == 0
    # A reader has looked again, and is certain; also where the labels are the same.
    (tmp_path / "new.csv").write_text("key,labels\n1.png,Edema|Fracture\n0.png,Edema\n")
    words = ("select", out, "--to", tmp_path / "new", "--relabel", tmp_path / "new.csv")
    assert cli(*words).code == 0
    assert labels_of(tmp_path / "new") == {**LABELS, "1.png": [1, 0, 1], "0.png": [1, 0, 0]}
    assert cli("verify", tmp_path / "new", "--level", "records").code == 0
    # Numbers of classes change, names stay.
    (tmp_path / "classes.txt").write_text("\n".join([*CLASSES, "other"]))
    words = ("select", out, "--to", tmp_path / "more", "--classes", tmp_path / "classes.txt")
    assert cli(*words).code == 0
    assert labels_of(tmp_path / "more") == {key: [*row, 0] for key, row in LABELS.items()}


@pytest.mark.parametrize("packed", everyday([True], [False]))
def test_what_is_left_out_is_counted_and_has_a_row(cli: Cli, tmp_path: Path, packed: bool) -> None:
    out = tmp_path / "out"
    words = (*words_of(tmp_path, packed=packed), "--uncertain", "exclude")
    result = cli(*words, "--out", out)
    assert result.code == 0, result
    assert "images left out: a label is uncertain (--uncertain exclude): 6" in result.out
    sure = {key: row for key, row in LABELS.items() if -1 not in row}
    assert labels_of(out) == sure
    rows = rows_of(out, "missing", "unlisted", "excluded")
    assert {(row["key"], row["status"], row["split"]) for row in rows} == {
        (key, "excluded", "train") for key in LABELS if key not in sure
    }
    assert {row["reason"] for row in rows} == {"a label is uncertain (--uncertain exclude)"}
    assert cli("convert", out, "--to", tmp_path / "again", "--sink", "recordio").code == 0
    assert len(rows_of(tmp_path / "again", "excluded")) == 6
    result = cli(*words, "--out", tmp_path / "cut", "--fractions", "train=0.5,test=0.5")
    assert result.code == 0, result
    assert {row["split"] for row in rows_of(tmp_path / "cut", "excluded")} == {None}


def test_what_is_certain_by_now_is_added(cli: Cli, tmp_path: Path) -> None:
    words = (*words_of(tmp_path), "--uncertain", "exclude", "--out", tmp_path / "out")
    assert cli(*words).code == 0
    listing = tmp_path / "list.csv"
    listing.write_text(listing.read_text().replace("\n0.png,1,,-1", "\n0.png,1,,1"))
    assert cli(*words, "--append").code == 0
    assert labels_of(tmp_path / "out")["0.png"] == [1, 0, 1]
    assert len(rows_of(tmp_path / "out", "excluded")) == 5


def test_nothing_certain_is_not_no_label(cli: Cli, tmp_path: Path) -> None:
    words, listing = words_of(tmp_path), tmp_path / "list.csv"
    listing.write_text(listing.read_text().replace("\n3.png,,,", "\n3.png,-1,,"))
    assert cli(*words, "--out", tmp_path / "out", "--sink", "recordio").code == 0
    lines = cli("inspect", tmp_path / "out", "--labels", "csv").out.splitlines()
    assert lines[-3:] == ["no label,2,16.7", "only uncertain labels,1,8.3", "total,12,100.0"]
