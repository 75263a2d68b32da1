"""Names, labels, lists and archives are those of the published set."""

from __future__ import annotations

import csv
import gzip
import io
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep.datasets.chestxray14.lists import find_lists, read_listed
from dataprep.datasets.chestxray14.options import OPTIONS, read_settings
from dataprep.errors import SourceError, UsageError
from dataprep.synthesize.chestxray14.labels import parse_labels
from dataprep.synthesize.chestxray14.lists import made_up_lists
from dataprep.synthesize.chestxray14.numbers import patient_numbers
from dataprep.synthesize.chestxray14.patients import made_up_labels
from dataprep.synthesize.chestxray14.plan import archive_sizes, plan_chestxray14

FOURTEEN = {
    *("Atelectasis", "Cardiomegaly", "Effusion", "Infiltration", "Mass", "Nodule", "Pneumonia"),
    *("Pneumothorax", "Consolidation", "Edema", "Emphysema", "Fibrosis", "Pleural_Thickening"),
    "Hernia",
}
DEFAULTS = {option.name: option.default for option in OPTIONS if option.default}
HEADER = (
    "Image Index,Finding Labels,Follow-up #,Patient ID,Patient Age,Patient Gender,"
    "View Position,OriginalImage[Width,Height],OriginalImagePixelSpacing[x,y]"
)
GIVEN = (
    HEADER + "\n"
    "00000009_001.png,Mass|Atelectasis,0,9,58,M,PA,2682,2749,0.143,0.143\n"
    "00000009_000.png,No Finding,1,9,58,M,PA,2894,2729,0.143,0.143\n"
    "00000003_000.png,Hernia,0,3,81,F,AP,2582,2991,0.143,0.143\n"
).encode()


def cells(content: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(content.decode("ascii"))))


def test_the_full_set_is_cut_as_published() -> None:
    assert archive_sizes(112_120, 12) == (4_999, *[10_000] * 10, 7_121)


@given(images=st.integers(1, 3_000), archives=st.integers(1, 40))
def test_no_archive_is_empty_and_no_image_is_lost(images: int, archives: int) -> None:
    sizes = archive_sizes(images, archives)
    assert sum(sizes) == images
    assert min(sizes) >= 1
    assert len(sizes) == min(images, archives)


def test_other_sets_are_cut_in_the_same_proportions() -> None:
    assert archive_sizes(11_212, 12) == (500, *[1_000] * 10, 712)
    assert archive_sizes(1_000, 1) == (1_000,)


def test_the_2020_table_has_its_published_form() -> None:
    table = made_up_labels(400, "2020", 0)
    header, *rows = cells(table.content)
    assert table.file_name == "Data_Entry_2017_v2020.csv"
    assert table.content.decode().splitlines()[0] == HEADER
    assert {len(header)} == {len(row) for row in rows} == {11}
    by_patient: dict[str, list[list[str]]] = {}
    for row in rows:
        assert row[0][:8] == f"{int(row[3]):08d}"
        by_patient.setdefault(row[3], []).append(row)
    assert list(by_patient) == [str(number) for number in range(1, 401)]
    for visits in by_patient.values():
        assert [row[2] for row in visits] == [str(rank) for rank in range(len(visits))]
        assert sorted(row[0][9:12] for row in visits) == [f"{i:03d}" for i in range(len(visits))]
        ages = [int(row[4]) for row in visits]
        assert ages == sorted(ages)
        assert 0 <= ages[0] <= ages[-1] <= 95
        assert len({row[5] for row in visits}) == 1
    assert {row[5] for row in rows} == {"M", "F"}
    assert {row[6] for row in rows} == {"PA", "AP"}
    # As in the original, follow-up number and suffix are two things.
    assert 0.02 < sum(int(row[2]) != int(row[0][9:12]) for row in rows) / len(rows) < 0.5


def test_the_2017_table_has_its_header_and_its_ages() -> None:
    table = made_up_labels(60, "2017", 0)
    header, *rows = cells(table.content)
    assert table.file_name == "Data_Entry_2017.csv"
    assert (len(header), header[-1], {len(row) for row in rows}) == (12, "", {11})
    ages = [row[4] for row in rows]
    assert "411" in ages
    assert any(age.endswith("Y") and len(age) == 4 for age in ages)
    assert any(age.isdigit() and int(age) < 100 for age in ages)
    assert all(int(row[2]) == int(row[0][9:12]) for row in rows)
    assert table.images == made_up_labels(60, "2020", 0).images


def test_labels_are_as_frequent_as_the_real_ones() -> None:
    images = made_up_labels(3_000, "2020", 1).images
    sets = [findings.split("|") for _, findings in images]
    tokens = Counter(token for findings in sets for token in findings)
    assert tokens.keys() - {"No Finding"} == FOURTEEN
    assert 0.50 < tokens["No Finding"] / len(sets) < 0.58
    assert 0.15 < tokens["Infiltration"] / len(sets) < 0.21
    assert 0.15 < sum(len(findings) > 1 for findings in sets) / len(sets) < 0.22
    assert all(len(findings) == len(set(findings)) for findings in sets)
    assert any(findings != sorted(findings) for findings in sets)
    counts = Counter(name[:8] for name, _ in images)
    assert 3.3 < len(images) / 3_000 < 3.9
    assert max(counts.values()) <= 20
    assert sum(count == 1 for count in counts.values()) > 1_000


def test_a_larger_set_contains_a_smaller_one_and_the_seed_matters() -> None:
    small, large = made_up_labels(30, "2020", 0), made_up_labels(60, "2020", 0)
    assert large.content.startswith(small.content)
    assert made_up_labels(30, "2020", 1).content != small.content


def test_small_sets_have_what_chance_would_leave_out() -> None:
    findings = [findings for _, findings in made_up_labels(6, "2020", 0).images]
    assert "Hernia" in findings
    assert any(f.split("|") != sorted(f.split("|")) for f in findings)


@pytest.mark.parametrize("patients", [*range(3, 16), 60])
@pytest.mark.parametrize("split", ["official", "random-by-patient"])
def test_each_split_of_the_default_options_has_a_patient(
    tmp_path: Path, patients: int, split: str
) -> None:
    for seed in range(4):
        plan = plan_chestxray14(patients=patients, seed=seed)
        assert plan.patients == patients
        for name, content in plan.documents.items():
            (tmp_path / name).write_bytes(content)
        settings = read_settings({**DEFAULTS, "split": split})
        listed, _ = read_listed(find_lists(tmp_path, {}, settings.official), settings.cut)
        assert set(listed["split"].to_pylist()) == {"train", "validation", "test"}


def test_patients_of_a_few_are_numbered_as_of_many() -> None:
    assert patient_numbers(3) == (1, 2, 24)
    assert patient_numbers(4) == (1, 2, 3, 24)
    assert patient_numbers(25) == tuple(range(1, 26))
    assert patient_numbers(30_805)[-1] == 30_805


def test_lists_are_made_up_for_any_number_of_given_patients() -> None:
    rows = [f"{number:08d}_000.png,Mass".encode() for number in (1, 2, 5)]
    cut = [parse_labels(b"\n".join((HEADER.encode(), *rows[:count])), "") for count in (1, 2, 3)]
    assert [made_up_lists(table, 0) for table in cut] == [
        (b"00000001_000.png", b""),
        (b"00000001_000.png", b"00000002_000.png"),
        (b"00000001_000.png\n00000002_000.png", b"00000005_000.png"),
    ]


@pytest.mark.parametrize("seed", range(5))
def test_no_patient_is_in_both_lists(seed: int) -> None:
    table = made_up_labels(60, "2020", seed)
    train, test = (part.decode().split("\n") for part in made_up_lists(table, seed))
    assert {name[:8] for name in train}.isdisjoint(name[:8] for name in test)
    assert sorted(train + test) == [name for name, _ in table.images]
    assert (train, test) == (sorted(train), sorted(test))
    assert 0.2 < len(test) / len(table.images) < 0.35


def test_boxes_lie_in_the_published_picture_and_use_the_lists_words() -> None:
    plan = plan_chestxray14()
    content = plan.documents["BBox_List_2017.csv"]
    assert content.startswith(b"Image Index,Finding Label,Bbox [x,y,w,h],,,\n")
    header, *rows = cells(content)
    assert (len(header), {len(row) for row in rows}) == (9, {6})
    findings = dict(plan.table.images)
    assert "Infiltrate" in {row[1] for row in rows}
    for name, finding, *edges in rows:
        assert finding.replace("Infiltrate", "Infiltration") in findings[name].split("|")
        x, y, width, height = map(float, edges)
        assert 0 <= x < x + width <= 1024
        assert 0 <= y < y + height <= 1024
    assert len({(row[0], row[1]) for row in rows}) == len(rows)


@pytest.mark.parametrize("packed", [False, True])
def test_a_given_csv_is_copied_and_all_its_rows_are_made(tmp_path: Path, packed: bool) -> None:
    path = tmp_path / ("labels.csv.gz" if packed else "labels.csv")
    path.write_bytes(gzip.compress(GIVEN) if packed else GIVEN)
    plan = plan_chestxray14(csv=path)
    assert plan.documents["Data_Entry_2017_v2020.csv"] == GIVEN
    assert "BBox_List_2017.csv" not in plan.documents
    assert [(image.name, image.findings) for image in plan.radiographs()] == [
        ("00000003_000.png", "Hernia"),
        ("00000009_000.png", "No Finding"),
        ("00000009_001.png", "Mass|Atelectasis"),
    ]
    assert [image.archive for image in plan.radiographs()] == [1, 2, 3]


def test_given_lists_and_boxes_are_copied(tmp_path: Path) -> None:
    paths = {name: tmp_path / name for name in ("csv", "train_val_list", "test_list.gz", "bbox")}
    paths["csv"].write_bytes(GIVEN.replace(b"y]\n", b"y],\n", 1))
    paths["train_val_list"].write_bytes(b"00000009_000.png\n00000009_001.png")
    paths["test_list.gz"].write_bytes(gzip.compress(b"00000003_000.png"))
    paths["bbox"].write_bytes(b"boxes")
    plan = plan_chestxray14(
        csv=paths["csv"],
        train_val_list=paths["train_val_list"],
        test_list=paths["test_list.gz"],
        bbox_csv=paths["bbox"],
    )
    assert dict(plan.documents) == {
        "Data_Entry_2017.csv": paths["csv"].read_bytes(),
        "train_val_list.txt": b"00000009_000.png\n00000009_001.png",
        "test_list.txt": b"00000003_000.png",
        "BBox_List_2017.csv": b"boxes",
    }


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "does not begin with"),
        (b"name,label\n", "does not begin with"),
        (GIVEN.replace(b"00000003_000", b"../../../etc"), r"line 4 .*\.\./etc"),
        (GIVEN + b"\n00000003_000.png,Mass\n", "00000003_000.png more than once"),
        (GIVEN + b"00000004_000.png\n", "line 5"),
        (GIVEN + b'"00000004_000.png', "line 6? ?.*not CSV"),
        (GIVEN + b"\xff,\n", "not CSV in UTF-8"),
        (HEADER.encode(), "lists no images"),
    ],
    ids=["empty", "header", "path", "repeated", "short", "quote", "bytes", "no-rows"],
)
def test_what_is_no_label_csv_is_refused_in_one_line(content: bytes, message: str) -> None:
    with pytest.raises(SourceError, match=message) as caught:
        parse_labels(content, "labels.csv")
    assert "\n" not in str(caught.value)


def test_unreadable_files_are_clear_errors(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="cannot read"):
        plan_chestxray14(csv=tmp_path / "none.csv")
    (tmp_path / "cut.csv.gz").write_bytes(gzip.compress(GIVEN)[:40])
    with pytest.raises(SourceError, match="not a whole gzip file"):
        plan_chestxray14(csv=tmp_path / "cut.csv.gz")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"patients": 0}, "patients is 0"),
        ({"patients": 2}, "patients is 2; it must be between 3, one each for train, validation"),
        ({"patients": 30_806}, "patients is 30806"),
        ({"archives": 0}, "archives is 0"),
        ({"patients": 3, "defects": True, "seed": 1}, "--defects needs 7"),
        ({"test_list": Path("x")}, "give that, too"),
        ({"csv": Path("x"), "patients": 3}, "leave them out"),
        ({"csv": Path("x"), "csv_version": "2017"}, "leave them out"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_impossible_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        plan_chestxray14(**options)


def test_one_list_without_the_other_is_refused(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_bytes(GIVEN)
    with pytest.raises(UsageError, match="both"):
        plan_chestxray14(csv=tmp_path / "labels.csv", test_list=tmp_path / "test")
