"""The lists of ChestX-ray14 are read as they are published, and what does not fit is named."""

from __future__ import annotations

import gzip
import os
import re
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dataprep.datasets.chestxray14.lists import Lists, find_lists, read_listed
from dataprep.datasets.splits import Cut
from dataprep.errors import SourceError

REAL = "DATAPREP_REAL_CHESTXRAY14"
CUT = Cut(0, (("validation", Fraction("0.1")),), "train")
LABELS = "Data_Entry_2017.csv"

V2020 = (
    "Image Index,Finding Labels,Follow-up #,Patient ID,Patient Age,Patient Gender,View Position,"
    "OriginalImage[Width,Height],OriginalImagePixelSpacing[x,y]"
)
BOX_HEADER = "Image Index,Finding Label,Bbox [x,y,w,h],,,"


ReadLabels = Callable[..., dict[str, dict[str, Any]]]
ReadBoxes = Callable[..., tuple[list[tuple[float, ...]], list[str]]]
ReadSide = Callable[[bytes], list[str]]


def row(
    name: str = "00000001_000.png",
    findings: str = "Mass",
    patient: str | None = None,
    age: str = "58",
    **others: str,
) -> str:
    patient = str(int(name[:8])) if patient is None else patient
    gender, view = others.get("gender", "M"), others.get("view", "PA")
    follow_up = others.get("follow_up", "0")
    return f"{name},{findings},{follow_up},{patient},{age},{gender},{view},2682,2749,0.143,0.143"


@pytest.fixture
def labels(tmp_path: Path) -> ReadLabels:
    """Reads a label CSV of these lines; the rows by key."""

    def read(
        *lines: str, header: str = V2020, end: str = "\n", start: bytes = b""
    ) -> dict[str, dict[str, Any]]:
        text = end.join((header, *lines)) + end
        (tmp_path / LABELS).write_bytes(start + text.encode("utf-8", "surrogateescape"))
        table, _ = read_listed(find_lists(tmp_path, {}, official=False), CUT)
        return {entry["key"]: entry for entry in table.to_pylist()}

    return read


@pytest.fixture
def boxes(tmp_path: Path) -> ReadBoxes:
    """Reads a box list of these lines; the boxes of the only image."""

    def read(*lines: str, header: str = BOX_HEADER) -> tuple[list[tuple[float, ...]], list[str]]:
        (tmp_path / LABELS).write_text(f"{V2020}\n{row()}\n")
        (tmp_path / "BBox_List_2017.csv").write_text("\n".join((header, *lines)))
        table, _ = read_listed(find_lists(tmp_path, {}, official=False), CUT)
        (found,) = table.to_pylist()
        return [(*box,) for box in found["boxes"]], found["box_labels"]

    return read


@pytest.fixture
def side(tmp_path: Path) -> ReadSide:
    """Reads a list of training and validation with this content; the images without split."""

    def read(content: bytes) -> list[str]:
        rows = [row(f"0000000{number}_000.png") for number in (1, 2, 3)]
        (tmp_path / LABELS).write_text("\n".join((V2020, *rows)))
        (tmp_path / "train_val_list.txt").write_bytes(content)
        (tmp_path / "test_list.txt").write_text("00000003_000.png")
        table, _ = read_listed(find_lists(tmp_path, {}, official=True), CUT)
        return [entry["key"] for entry in table.to_pylist() if entry["split"] is None]

    return read


def refused(read: Callable[..., object], *lines: str, **settings: str | bytes) -> str:
    """The message that these lines are refused with."""
    with pytest.raises(SourceError) as caught:
        read(*lines, **settings)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("header", "tail"),
    [
        (V2020, ""),
        (V2020 + ",", ""),
        (V2020 + ",", ","),
        (V2020, ",,"),
        (V2020.replace("Patient Gender", "Patient Sex"), ""),
    ],
    ids=["v2020", "2017", "2017 with trailing commas", "v2020 with trailing commas", "sex"],
)
def test_both_releases_are_read_by_position(labels: ReadLabels, header: str, tail: str) -> None:
    rows = labels(
        row("00000002_000.png", "No Finding", age="81", gender="F", view="AP") + tail,
        row("00000001_002.png", "Effusion|Cardiomegaly", follow_up="2") + tail,
        header=header,
    )
    assert [(entry["key"], entry["line"], entry["labels"]) for entry in rows.values()] == [
        ("00000002_000.png", 2, []),
        ("00000001_002.png", 3, ["Cardiomegaly", "Effusion"]),
    ]
    names = ("patient_id", "age", "follow_up", "gender", "view")
    assert [rows["00000002_000.png"][name] for name in names] == [2, 81, 0, "F", "AP"]


def test_byte_order_mark_line_ends_quotes_and_blank_lines_are_tolerated(labels: ReadLabels) -> None:
    fields = row("00000002_000.png", "Mass|Nodule").split(",")
    quoted = ",".join(f'"{field}"' for field in fields)
    rows = labels(row(), quoted, "", end="\r\n", start=b"\xef\xbb\xbf")
    assert [entry["line"] for entry in rows.values()] == [2, 3]
    assert rows["00000002_000.png"]["labels"] == ["Mass", "Nodule"]


@pytest.mark.parametrize(
    ("text", "years"),
    [
        ("58", 58),
        ("058Y", 58),
        ("011M", 0),
        ("060W", 1),
        ("730D", 2),
        ("120y", 120),
        ("121", None),
        ("411Y", None),
        ("", None),
    ],
)
def test_ages_are_whole_years_that_somebody_reaches(
    labels: ReadLabels, text: str, years: int | None
) -> None:
    (entry,) = labels(row(age=text)).values()
    assert entry["age"] == years


def test_what_is_empty_is_left_out(labels: ReadLabels) -> None:
    (entry,) = labels(row(age="", gender="", view="", follow_up="")).values()
    assert [entry[name] for name in ("age", "gender", "view", "follow_up")] == [None] * 4


WRONG_ROWS = {
    "unknown finding": (
        row(findings="Mass|Tumour"),
        "findings of Atelectasis, Card.*, Hernia, .* or No Finding alone",
    ),
    "case of a finding": (row(findings="mass"), "findings of"),
    "no finding in words": (row(findings=""), "findings of"),
    "finding and none": (row(findings="Mass|No Finding"), "findings of"),
    "finding twice": (row(findings="Mass|Mass"), "findings of .* each once"),
    "patient of another": (
        row(patient="2"),
        "the patient that the name of the image begins with",
    ),
    "negative patient": (row("x.png", patient="-1"), "a whole number as patient"),
    "huge patient": (row("x.png", patient="1" * 30), "a whole number as patient"),
    "follow-up": (row(follow_up="first"), "a whole number as follow-up"),
    "age": (row(age="old"), "an age in years, such as 58 or 058Y"),
    "path": (row("images/00000001_000.png", patient="1"), "a file name first, such as"),
    "no name": (row("", patient="1"), "a file name first"),
    "cut off": ("00000001_000.png,Mass,0,1,58", "7 fields"),
    "comma for a bar": (row(findings="Mass,Nodule"), "a whole number as follow-up"),
}


@pytest.mark.parametrize("case", WRONG_ROWS)
def test_a_row_that_does_not_fit_is_named(labels: ReadLabels, case: str) -> None:
    line, problem = WRONG_ROWS[case]
    message = refused(labels, row("00000009_000.png"), "", line)
    assert re.match(f"Data_Entry_2017.csv, line 4: expected {problem}", message), message


def test_another_file_is_not_taken_for_the_label_csv(labels: ReadLabels) -> None:
    message = refused(labels, row(), header=V2020.replace("Patient Age", "Age"))
    assert "has no columns Patient Age, expected one; it has Image Index, " in message
    assert message.endswith("with commas, or name another list with --labels")


@pytest.mark.parametrize("content", ["password\n", f"{V2020}\npassword\n"])
def test_no_line_is_shown_of_what_a_link_elsewhere_leads_to(tmp_path: Path, content: str) -> None:
    (tmp_path / "secret").write_text(content)
    raw = tmp_path / "raw"
    raw.mkdir()
    (raw / LABELS).symlink_to(tmp_path / "secret")
    message = refused(lambda: read_listed(find_lists(raw, {}, official=False), CUT))
    assert message.startswith(LABELS)
    assert "password" not in message


def test_boxes_are_fractions_of_the_published_size_and_clipped_to_it(boxes: ReadBoxes) -> None:
    assert boxes(
        "00000001_000.png,Infiltrate,256,512,128,64,,,",
        "00000009_000.png,Mass,0,0,1024,1024",
        "00000001_000.png,Atelectasis,-256,512,512,1024",
    ) == ([(0.25, 0.5, 0.375, 0.5625), (0.0, 0.5, 0.25, 1.0)], ["Infiltration", "Atelectasis"])


@pytest.mark.parametrize(
    "line",
    [
        "a.png,Mass,1,2,3",
        "a.png,Mass,1,2,3,x",
        "a.png,Mass,1,2,0,4",
        "a.png,Mass,nan,2,3,4",
        "a.png,Mass,1024,2,3,4",
        "a.png,No Finding,1,2,3,4",
        "a.png",
    ],
)
def test_a_box_that_is_none_is_named(boxes: ReadBoxes, line: str) -> None:
    assert refused(boxes, "b.png,Mass,1,2,3,4", line).startswith("BBox_List_2017.csv, line 3: ")


def test_another_file_is_not_taken_for_the_box_list(boxes: ReadBoxes) -> None:
    assert "--bbox_csv" in refused(boxes, "a.png,Mass,1,2,3,4", header="Image Index,Finding Label")


def test_a_split_list_has_one_name_a_line(side: ReadSide) -> None:
    assert side(b"\xef\xbb\xbf00000001_000.png\r\n\r\n00000002_000.png") == []
    assert side(b"00000001_000.png\n") == ["00000002_000.png"]


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
@pytest.mark.parametrize("name", [LABELS, "train_val_list.txt"])
def test_another_encoding_is_refused_in_one_clear_line(
    tmp_path: Path, name: str, encoding: str
) -> None:
    texts = {
        LABELS: f"{V2020}\n{row()}\n",
        "train_val_list.txt": "00000001_000.png\n",
        "test_list.txt": "00000002_000.png\n",
    }
    for file, text in texts.items():
        used = encoding if file == name else "utf-8"
        (tmp_path / file).write_bytes(f"{text}\xe9".encode(used) if file == name else text.encode())
    lists = find_lists(tmp_path, {}, official=True)
    message = refused(lambda: read_listed(lists, CUT))
    assert re.fullmatch(f"{name}(, line 3)? is not UTF-8; save it as UTF-8", message)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Lists:
    """The published lists, from a folder of them, as they are or each packed with gzip."""
    if REAL not in os.environ:
        pytest.skip(f"{REAL} does not name the folder of the published lists")
    raw = tmp_path_factory.mktemp("published")
    for path in Path(os.environ[REAL]).iterdir():
        if path.suffix in (".csv", ".txt"):
            (raw / path.name).write_bytes(path.read_bytes())
        elif path.suffix == ".gz":
            (raw / path.stem).write_bytes(gzip.decompress(path.read_bytes()))
    return find_lists(raw, {}, official=True)


def test_the_published_lists_have_the_published_numbers(real: Lists) -> None:
    table, counts = read_listed(real, CUT)
    assert counts == {}
    rows = table.to_pylist()
    assert [entry["line"] for entry in rows] == list(range(2, len(rows) + 2))
    lines = real["labels"].read_text().splitlines()
    assert all(lines[entry["line"] - 1].startswith(entry["key"]) for entry in rows)
    findings = Counter(finding for entry in rows for finding in entry["labels"])
    assert (len(findings), findings["Infiltration"], findings["Hernia"]) == (14, 19_894, 227)
    assert sum(not entry["labels"] for entry in rows) == 60_361
    assert len({tuple(entry["labels"]) for entry in rows}) == 801  # 836 in some order
    test = [entry["group"] for entry in rows if entry["split"] == "test"]
    others = [entry["group"] for entry in rows if entry["split"] in ("train", "validation")]
    assert (len(test), len(others)) == (25_596, 86_524)
    assert (len(set(test)), len(set(others))) == (2_797, 28_008)
    assert Counter(entry["gender"] for entry in rows) == {"M": 63_340, "F": 48_780}
    assert Counter(entry["view"] for entry in rows) == {"PA": 67_310, "AP": 44_810}
    ages = [entry["age"] for entry in rows]
    assert (max(ages), ages.count(0)) == (95, 14)
    assert sum(len(entry["boxes"] or ()) for entry in rows) == 984
    assert len({name for entry in rows for name in entry["box_labels"] or ()}) == 8
