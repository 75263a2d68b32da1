"""The lists of ChestX-ray14 are read as they are published, and what does not fit is named."""

from __future__ import annotations

import re

import pytest

from dataprep.errors import SourceError
from dataprep.sources.chestxray14.boxes import load_boxes
from dataprep.sources.chestxray14.files import find_lists, names_of
from dataprep.sources.chestxray14.labels import FINDINGS, ORDERS, load_labels, shown

V2020 = (
    "Image Index,Finding Labels,Follow-up #,Patient ID,Patient Age,Patient Gender,View Position,"
    "OriginalImage[Width,Height],OriginalImagePixelSpacing[x,y]"
)
BOX_HEADER = "Image Index,Finding Label,Bbox [x,y,w,h],,,"


def row(name="00000001_000.png", findings="Mass", patient=None, age="58", **others):
    patient = str(int(name[:8])) if patient is None else patient
    gender, view = others.get("gender", "M"), others.get("view", "PA")
    follow_up = others.get("follow_up", "0")
    return f"{name},{findings},{follow_up},{patient},{age},{gender},{view},2682,2749,0.143,0.143"


@pytest.fixture
def labels(tmp_path):
    """Reads a label CSV of these lines."""

    def read(*lines, header=V2020, end="\n", start=""):
        text = start + end.join((header, *lines)) + end
        (tmp_path / "Data_Entry_2017.csv").write_bytes(text.encode("utf-8", "surrogateescape"))
        return load_labels(find_lists(tmp_path, {}, official=False).labels)

    return read


@pytest.fixture
def boxes(tmp_path):
    """Reads a box list of these lines."""

    def read(*lines, header=BOX_HEADER):
        (tmp_path / "Data_Entry_2017.csv").touch()
        (tmp_path / "BBox_List_2017.csv").write_text("\n".join((header, *lines)))
        file = find_lists(tmp_path, {}, official=False).boxes
        assert file
        return load_boxes(file)

    return read


@pytest.fixture
def side(tmp_path):
    """Reads a split list with this content."""

    def read(content):
        for name in ("Data_Entry_2017.csv", "test_list.txt"):
            (tmp_path / name).touch()
        (tmp_path / "train_val_list.txt").write_bytes(content)
        sides = find_lists(tmp_path, {}, official=True).sides
        assert sides
        return names_of(sides[0])

    return read


def refused(read, *lines, **settings):
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
        (V2020, ","),
        (V2020.replace("Patient Gender", "Patient Sex"), ""),
    ],
    ids=["v2020", "2017", "2017 with trailing commas", "v2020 with trailing commas", "sex"],
)
def test_both_releases_are_read_by_position(labels, header, tail):
    table = labels(
        row("00000002_000.png", "No Finding", age="81", gender="F", view="AP") + tail,
        row("00000001_002.png", "Effusion|Cardiomegaly", follow_up="2") + tail,
        header=header,
    )
    assert list(table.rows) == ["00000002_000.png", "00000001_002.png"]
    assert [shown(findings, FINDINGS) for findings in table.findings] == [(), (1, 2)]
    assert table.attributes(0) == {
        "patient_id": 2,
        "age": 81,
        "follow_up": 0,
        "gender": "F",
        "view": "AP",
    }
    assert table.attributes(1)["follow_up"] == 2


def test_byte_order_mark_line_ends_quotes_and_blank_lines_are_tolerated(labels):
    quoted = row("00000002_000.png").replace("Mass", '"Mass|Nodule"')
    table = labels(row(), "", quoted, "", "  ", end="\r\n", start="\ufeff")
    assert table.rows == {"00000001_000.png": 0, "00000002_000.png": 1}
    assert shown(table.findings[1], FINDINGS) == (4, 5)


@pytest.mark.parametrize(
    ("text", "years"),
    [
        ("58", 58),
        ("058Y", 58),
        ("0", 0),
        ("012M", 1),
        ("011M", 0),
        ("003D", 0),
        ("730D", 2),
        ("060W", 1),
        ("120", 120),
        ("120y", 120),
    ],
)
def test_ages_are_whole_years(labels, text, years):
    table = labels(row(age=text))
    assert table.attributes(0)["age"] == years
    assert not table.is_age_out_of_range(0)


@pytest.mark.parametrize(("text", "counts"), [("121", True), ("411Y", True), ("", False)])
def test_an_age_that_nobody_reaches_is_missing(labels, text, counts):
    table = labels(row(age=text))
    assert "age" not in table.attributes(0)
    assert table.is_age_out_of_range(0) is counts


def test_what_is_empty_is_left_out(labels):
    table = labels(row(age="", gender="", view="", follow_up=""))
    assert table.attributes(0) == {"patient_id": 1}


def test_labels_follow_the_order_of_the_findings(labels):
    table = labels(row(findings="Hernia|Pleural_Thickening|Atelectasis"))
    findings = table.findings[0]
    assert shown(findings, ORDERS["canonical"]) == (0, 12, 13)
    assert shown(findings, ORDERS["alphabetical"]) == (0, 7, 11)
    assert ORDERS["alphabetical"][11] == "Pleural_Thickening"


WRONG_ROWS = {
    "unknown finding": (
        row(findings="Mass|Tumour"),
        "has the finding 'Tumour'; expected Atelectasis, Card.*, Hernia or No Finding, separated",
    ),
    "part of a finding": (row(findings="Pleural"), "has the finding 'Pleural'; expected"),
    "case of a finding": (row(findings="mass"), "'mass'; expected"),
    "no finding in words": (row(findings=""), "has the finding ''; expected"),
    "finding and none": (
        row(findings="Mass|No Finding"),
        r"has 'Mass\|No Finding'; expected No Finding only by itself",
    ),
    "finding twice": (
        row(findings="Mass|Edema|Mass"),
        "has the finding 'Mass' twice; expected each",
    ),
    "twice": (row("00000009_000.png"), "names 00000009_000.png, as does line 2"),
    "patient of another": (
        row(patient="2"),
        "00000001_000.png is of patient 2; expected patient 1, with whose number",
    ),
    "patient in words": (row(patient="one"), "has the patient 'one'; expected a whole number"),
    "negative patient": (row("x.png", patient="-1"), "has the patient '-1'; expected a whole"),
    "huge patient": (row("x.png", patient="1" * 30), "expected a whole number"),
    "follow-up": (row(follow_up="first"), "has the follow-up 'first'; expected a whole number"),
    "age": (row(age="old"), "has the age 'old'; expected years, such as 58 or 058Y"),
    "age of other digits": (row(age="\u0665\u0668"), "has the age .*; expected years"),
    "control character": (row(view="P\x1bA"), r"has the view 'P\\+x1bA'; expected plain text"),
    "undecodable": (row(gender="\udcff"), r"has the gender '\\+udcff'; expected plain text"),
    "path": (row("images/00000001_000.png", patient="1"), "expected a file name, such as"),
    "no name": (row("", patient="1"), "names the image ''; expected a file name"),
    "cut off": ("00000001_000.png,Mass,0,1,58", "has 5 fields; expected 7 to 11"),
    "comma too many": (row(findings="Mass,Nodule"), "has 12 fields; expected 7 to 11"),
    "open quote": ('"' + row(), "is no CSV"),
}


@pytest.mark.parametrize("case", WRONG_ROWS)
def test_a_row_that_does_not_fit_is_named(labels, case):
    line, problem = WRONG_ROWS[case]
    message = refused(labels, row("00000009_000.png"), line)
    assert re.match(f"line 3 of Data_Entry_2017.csv .*{problem}", message), message


def test_the_trailing_comma_of_2017_does_not_make_room_for_another(labels):
    line = row(findings="Mass,Nodule")
    assert "has 12 fields; expected 7 to 11" in refused(labels, line, header=V2020 + ",")


@pytest.mark.parametrize(
    "header", ["", BOX_HEADER, "name,label", V2020.replace("Patient Age", "Age")]
)
def test_another_file_is_not_taken_for_the_label_csv(labels, header):
    message = refused(labels, row(), header=header)
    assert "expected the header Image Index,Finding Labels," in message
    assert "--labels" in message


def test_a_label_csv_without_rows_is_refused(labels):
    assert "has no rows below its header" in refused(labels)


def test_a_changed_label_csv_is_read_again(labels):
    assert len(labels(row()).rows) == 1
    assert len(labels(row(), row("00000002_000.png")).rows) == 2


def test_boxes_are_fractions_of_the_published_size(boxes):
    found = boxes(
        "00000001_000.png,Infiltrate,256,512,128,64,,,",
        "00000002_000.png,Mass,0,0,1024,1024",
        "00000001_000.png,Atelectasis,0.5,1.5,2.5,4.5",
    )
    first, second = found["00000001_000.png"]
    assert (first.finding, first.box) == ("Infiltration", (0.25, 0.5, 0.375, 0.5625))
    assert second.finding == "Atelectasis"
    (whole,) = found["00000002_000.png"]
    assert (whole.box, whole.clipped) == ((0.0, 0.0, 1.0, 1.0), False)


def test_boxes_are_clipped_to_the_image(boxes):
    found = boxes("a.png,Mass,-256,512,512,1024")["a.png"][0]
    assert (found.box, found.clipped) == ((0.0, 0.5, 0.25, 1.0), True)


@pytest.mark.parametrize(
    "line",
    [
        "a.png,Mass,1,2,3",
        "a.png,Mass,1,2,3,4,5",
        "a.png,Mass,1,2,3,x",
        "a.png,Mass,1,2,0,4",
        "a.png,Mass,1,2,3,-4",
        "a.png,Mass,nan,2,3,4",
        "a.png,Mass,1,2,inf,4",
        "a.png,Mass,-inf,2,3,4",
        "a.png,Mass,1024,2,3,4",
        "a.png,Mass,1,-5,3,5",
        "a.png",
    ],
)
def test_a_box_that_is_none_is_named(boxes, line):
    assert refused(boxes, "b.png,Mass,1,2,3,4", line).startswith("line 3 of BBox_List_2017.csv ")


def test_a_box_of_an_unknown_finding_is_named(boxes):
    assert "line 2 of BBox_List_2017.csv has the finding 'No Finding'" in refused(
        boxes, "a.png,No Finding,1,2,3,4"
    )


@pytest.mark.parametrize("header", ["", "Image Index,Finding Label", "Image Index,Finding,Bbox [x"])
def test_another_file_is_not_taken_for_the_box_list(boxes, header):
    assert "--bbox_csv" in refused(boxes, "a.png,Mass,1,2,3,4", header=header)


def test_a_split_list_has_one_name_a_line(side):
    assert side(b"\xef\xbb\xbfa.png\r\nb.png\r\n\r\n") == ["a.png", "b.png"]
    assert side(b"c.png") == ["c.png"]


@pytest.mark.parametrize("line", [b"images_001/a.png", b"a.png 0 1 0"])
def test_a_split_list_of_another_kind_is_refused(side, line):
    message = refused(side, b"b.png\n" + line)
    assert message.startswith("line 2 of train_val_list.txt is ")


def test_an_empty_split_list_is_refused(side):
    assert "train_val_list.txt is empty" in refused(side, b"\n")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-16-le"])
def test_utf_16_is_refused_in_one_clear_line(tmp_path, encoding):
    texts = {
        "Data_Entry_2017.csv": V2020,
        "train_val_list.txt": "00000001_000.png",
        "test_list.txt": "00000002_000.png",
        "BBox_List_2017.csv": BOX_HEADER,
    }
    for name, text in texts.items():
        (tmp_path / name).write_bytes(text.encode(encoding))
    lists = find_lists(tmp_path, {}, official=True)
    assert lists.sides
    assert lists.boxes
    readers = (load_labels, names_of, names_of, load_boxes)
    for read, file in zip(readers, (lists.labels, *lists.sides, lists.boxes), strict=True):
        assert refused(read, file) == f"{file.place} is UTF-16; save it as UTF-8"
