"""What headers of DICOM images tell of them: a whitelist, hashed where it would name somebody."""

from __future__ import annotations

import hashlib
import hmac
import io
import json
import tarfile
import zipfile
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import dataprep
from dataprep.datasets.folder.dataset import Folder
from tests.conftest import Cli, everyday, rows_of
from tests.finished_sets import manifest_of
from tests.images.dicom_files import dataset, file, grouped, several

SECRET = "0123456789abcdef" * 4
NAMED = ("DOE^JANE", "19700101", "HOSP-4711", "1.2.840.99", "Hospital of X", "PID-", "RADIOGRAPHER")


def radiograph(number: int, **more: Any) -> bytes:
    """One of patient number // 2, with a header that names her."""
    pixels = np.random.default_rng(number).integers(0, 4096, (16, 20)).astype(np.uint16)
    known = {
        "PatientName": NAMED[0],
        "PatientBirthDate": NAMED[1],
        "AccessionNumber": NAMED[2],
        "StudyInstanceUID": f"{NAMED[3]}.{number // 2}",
        "InstitutionName": NAMED[4],
        "PatientID": f"{NAMED[5]}{number // 2}",
        "OperatorsName": NAMED[6],
        "PatientAge": "057Y",
        "PatientSex": "F",
        "ViewPosition": "PA",
        "ImageLaterality": "L",
        "BodyPartExamined": "CHEST",
        "Manufacturer": "Maker & Co.",
        "PixelSpacing": [0.143, 0.15],
        **more,
    }
    return file(dataset(pixels, 12, **{name: it for name, it in known.items() if it is not None}))


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    for number in range(24):
        place = tmp_path / "raw" / ("ill" if number % 2 else "well") / f"{number}.dcm"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(radiograph(number))
    (tmp_path / "key").write_text(f"{SECRET}\n")
    return tmp_path / "raw"


def hashed(kind: str, text: str) -> str:
    return hmac.new(SECRET.encode(), f"{kind}\0{text}".encode(), hashlib.sha256).hexdigest()


def everything(out: Path) -> bytes:
    """All bytes that a set has, but for what is in .dataprep and compressed pages."""
    files = [path for path in out.rglob("*") if path.is_file() and ".dataprep" not in path.parts]
    rows = json.dumps(rows_of(out), default=str).encode()
    return rows + b"".join(path.read_bytes() for path in files)


def test_a_whitelist_is_kept_and_hashed(raw: Path, tmp_path: Path, cli: Cli) -> None:
    out = tmp_path / "out"
    words = ("folder", "--raw", raw, "--out", out, "--hash_key", tmp_path / "key")
    done = cli(*words, "--dicom_attributes", "all", "--hash_keys", "--workers", 1)
    assert done.code == 0, done
    rows = {row["key"]: row for row in rows_of(out, "repaired")}
    assert len(rows) == 24
    row = rows[hashed("key", "ill/5.dcm")]
    found = {name: row[name] for name in ("view", "laterality", "body_part", "age", "sex")}
    assert found == {
        "view": "PA",
        "laterality": "L",
        "body_part": "CHEST",
        "age": 50,
        "sex": "F",
    }
    assert (row["manufacturer"], row["row_spacing"], row["column_spacing"]) == (
        "Maker & Co.",
        0.143,
        0.15,
    )
    assert row["patient"] == hashed("patient", "PID-2")
    assert row["study"] == hashed("study", "1.2.840.99.2")
    made = everything(out)
    assert not [name for name in (*NAMED, SECRET, "5.dcm") if name.encode() in made]
    assert manifest_of(out)["dataset_config"]["hash_key"] == hashed("fingerprint", "")[:16]


FORMS = ("folders", "listing", "sized listing", "tar.gz", "tar.xz", "zip")
CUTS = ("--stratify", "--no_stratify")


# Where headers are read and how images are cut are different steps.
@pytest.mark.parametrize(
    ("form", "stratify"),
    everyday(
        [
            ("sized listing", "--stratify"),
            ("tar.gz", "--no_stratify"),
            ("tar.xz", "--no_stratify"),
        ],
        [(form, stratify) for form in FORMS for stratify in CUTS],
    ),
)
def test_no_patient_is_in_two_splits(
    raw: Path, tmp_path: Path, cli: Cli, form: str, stratify: str
) -> None:
    images = sorted(raw.rglob("*.dcm"))
    more: tuple[object, ...] = ()
    if form in ("tar.gz", "tar.xz"):
        mode: Any = f"w:{form[-2:]}"
        for name in ("ill", "well"):
            with tarfile.open(raw / f"{name}.{form}", mode) as archive:
                for path in sorted((raw / name).iterdir()):
                    archive.add(path, path.name)
    elif form == "zip":
        with zipfile.ZipFile(raw / "all.zip", "w") as archive_:
            for path in images:
                archive_.write(path, str(path.relative_to(raw)))
    elif "listing" in form:
        sizes = form == "sized listing"
        lines = ["path,label,size" if sizes else "path,label"]
        for path in images:
            size = f",{path.stat().st_size}" if sizes else ""
            lines.append(f"{path.relative_to(raw)},{path.parent.name}{size}")
        (tmp_path / "list.csv").write_text("\n".join(lines))
        more = ("--listing", tmp_path / "list.csv")
    if form in ("tar.gz", "tar.xz", "zip"):
        for path in images:
            path.unlink()
        for name in ("ill", "well"):
            (raw / name).rmdir()
    out = tmp_path / "out"
    words = ("folder", "--raw", raw, "--out", out, "--hash_key", tmp_path / "key", *more)
    cut = ("--group_by", "patient", "--fractions", "train=0.5,test=0.5", stratify)
    done = cli(*words, "--dicom_attributes", "patient,age_years", *cut, "--workers", 1)
    assert done.code == 0, done
    rows = rows_of(out, "repaired")
    splits: dict[str, set[str]] = {}
    for row in rows:
        splits.setdefault(row["patient"], set()).add(row["split"])
        assert row["age_years"] == 57
    assert splits.keys() == {hashed("patient", f"PID-{number}") for number in range(12)}
    assert all(len(found) == 1 for found in splits.values())
    assert {split for (split,) in splits.values()} == {"train", "test"}


@pytest.mark.parametrize(
    ("elements", "expected"),
    [
        ({"PatientAge": "011M", "PatientSex": "JANE"}, {"age": 0}),
        ({"PatientAge": "101Y", "ViewPosition": "LL"}, {"age": 90, "sex": "F", "view": "LL"}),
        ({"PatientAge": None, "PatientSex": "", "ViewPosition": None}, {}),
    ],
)
def test_what_is_no_such_value_is_left_out(
    tmp_path: Path, cli: Cli, elements: dict[str, Any], expected: dict[str, Any]
) -> None:
    (tmp_path / "raw/a").mkdir(parents=True)
    (tmp_path / "raw/a/1.dcm").write_bytes(
        radiograph(1, **elements).replace(b"CS\2\0PA", b"CS\2\0J.")  # no code
    )
    words = ("folder", "--raw", tmp_path / "raw", "--out", tmp_path / "out", "--workers", 1)
    assert cli(*words, "--dicom_attributes", "age,sex,view").code == 0
    (row,) = rows_of(tmp_path / "out", "repaired")
    assert {name: row[name] for name in ("age", "sex", "view") if row[name] is not None} == expected


AGES = {
    **dict.fromkeys(("058Y", "58", "58Y", "058", "58 Y", "696M"), 58),
    **dict.fromkeys(("5.5Y", "121", "411Y", "999Y"), None),
    "00120": 120,
    "52W": 1,
    "0": 0,
}


@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.filterwarnings("ignore:Invalid value for VR AS")  # pydicom, of what is written here
def test_ages_have_units_or_none_and_nobody_is_older_than_120(
    tmp_path: Path, cli: Cli, *, listed: bool
) -> None:
    place = tmp_path / "raw/a"
    place.mkdir(parents=True)
    for number, age in enumerate(AGES):
        (place / f"{number}.dcm").write_bytes(radiograph(number, PatientAge=age))
    words: list[object] = ["folder", "--raw", tmp_path / "raw", "--out", tmp_path / "out"]
    if listed:
        lines = ["path,label", *(f"a/{number}.dcm,a" for number in range(len(AGES)))]
        (tmp_path / "list.csv").write_text("\n".join(lines))
        words += ["--listing", tmp_path / "list.csv"]
    done = cli(*words, "--dicom_attributes", "age,age_years", "--workers", 1)
    assert done.code == 0, done
    assert "age out of range: 3 in the raw data" in done.out
    rows = {int(Path(row["key"]).stem): row for row in rows_of(tmp_path / "out", "repaired")}
    assert [rows[number]["age_years"] for number in range(len(AGES))] == list(AGES.values())
    decades = [None if age is None else min(age // 10 * 10, 90) for age in AGES.values()]
    assert [rows[number]["age"] for number in range(len(AGES))] == decades


def test_functional_groups_tell_spacing_and_side(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "raw/a").mkdir(parents=True)
    said = {"PixelMeasuresSequence": {"PixelSpacing": ["0.5", "0.25"]}}
    side = {"FrameAnatomySequence": {"FrameLaterality": "L"}}
    several: list[dict[str, Any]] = [{}, {"PixelSpacing": ["0.5", "0.2"]}, {"NumberOfFrames": 1}]
    for number, more in enumerate(several):
        image = grouped(dataset(np.zeros((8, 8), np.uint8), **more), said, side)
        if number == 2:  # far behind what is read first
            image.add_new(0x00091010, "OB", bytes(1 << 19))
        (tmp_path / f"raw/a/{number}.dcm").write_bytes(file(image))
    words = ("folder", "--raw", tmp_path / "raw", "--out", tmp_path / "out", "--workers", 1)
    done = cli(*words, "--dicom_attributes", "row_spacing,laterality", "--max_bad", 1)
    assert done.code == 0, done
    for row in rows_of(tmp_path / "out", "repaired"):
        assert (row["row_spacing"], row["laterality"]) == (0.5, "L")
    (row,) = rows_of(tmp_path / "out", "rejected")
    assert row["reason"].startswith("ambiguous DICOM: PixelSpacing differs in functional")
    assert (row["row_spacing"], row["laterality"]) == (None, None)


def test_a_header_longer_than_what_is_read_first(tmp_path: Path, cli: Cli) -> None:
    place = tmp_path / "raw/a/1.dcm"
    place.parent.mkdir(parents=True)
    plain = dataset(np.zeros((8, 8), np.uint8), ViewPosition="PA", PixelSpacing=["1", "2"])
    plain.add_new(0x00091010, "OB", bytes(1 << 19))
    place.write_bytes(file(plain))
    words = ("folder", "--raw", tmp_path / "raw", "--out", tmp_path / "out", "--workers", 1)
    assert cli(*words, "--dicom_attributes", "view,column_spacing").code == 0
    (row,) = rows_of(tmp_path / "out", "repaired")
    assert (row["view"], row["column_spacing"]) == ("PA", 2.0)


def test_what_is_not_dicom_or_damaged_has_none(raw: Path, tmp_path: Path, cli: Cli) -> None:
    (raw / "ill/broken.dcm").write_bytes(radiograph(0)[:300])
    (raw / "ill/SMITH.txt").write_text("a note")
    words = ("folder", "--raw", raw, "--out", tmp_path / "out", "--workers", 1, "--max_bad", 1)
    hashing = ("--hash_key", tmp_path / "key", "--hash_keys")
    done = cli(*words, "--dicom_attributes", "view,patient", *hashing)
    assert done.code == 0, done
    (row,) = rows_of(tmp_path / "out", "rejected")
    assert (row["key"], row["view"]) == (hashed("key", "ill/broken.dcm"), None)
    made = everything(tmp_path / "out")
    assert not [name for name in (b"broken.dcm", b"SMITH") if name in made]
    done = cli(*words, "--dicom_attributes", "patient", *hashing[:2], "--group_by", "patient")
    assert "ill/broken.dcm: its header has no PatientID, by which --group_by patient" in done.error


def test_another_key_is_another_data_set(raw: Path, tmp_path: Path, cli: Cli) -> None:
    words = (
        *("folder", "--raw", raw, "--out", tmp_path / "out", "--workers", 1),
        *("--dicom_attributes", "patient", "--hash_key"),
    )
    assert cli(*words, tmp_path / "key").code == 0
    (tmp_path / "other").write_text(SECRET[::-1])
    for more in ((), ("--append",)):
        done = cli(*words, tmp_path / "other", *more)
        assert done.code != 0
        assert "hash_key" in done.error


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"dicom_attributes": "patient"}, "--dicom_attributes patient needs --hash_key FILE"),
        ({"hash_keys": None}, "--hash_keys needs --hash_key FILE"),
        ({"dicom_attributes": "name"}, "'--dicom_attributes': name: expected all, or some of view"),
        ({"group_by": "patient"}, "without --listing there are no columns"),
        ({"dicom_attributes": "study", "hash_key": "short"}, "5 characters, expected 32 or more"),
    ],
)
def test_what_cannot_be_is_refused(
    raw: Path, tmp_path: Path, cli: Cli, options: dict[str, str | None], reason: str
) -> None:
    (tmp_path / "short").write_text("short")
    words: list[object] = ["folder", "--raw", raw, "--out", tmp_path / "out"]
    for name, value in options.items():
        words.append(f"--{name}")
        if value is not None:
            words.append(tmp_path / value if name == "hash_key" else value)
    done = cli(*words)
    assert done.code != 0
    assert reason in done.error


def test_a_listing_of_archives_and_a_column_of_that_name_are_refused(
    raw: Path, tmp_path: Path, cli: Cli
) -> None:
    (tmp_path / "list.csv").write_text("path,label,view,Patient\nill/1.dcm,ill,AP,7\n")
    words = ("folder", "--raw", raw, "--out", tmp_path / "out", "--listing", tmp_path / "list.csv")
    done = cli(*words, "--attribute_columns", "view", "--dicom_attributes", "view")
    assert "view in both --attribute_columns and --dicom_attributes" in done.error
    hashing = ("--dicom_attributes", "patient", "--hash_key", tmp_path / "key")
    done = cli(*words, *hashing, "--group_by", "patient")
    assert "--group_by patient: list.csv has a column Patient, and --dicom_attr" in done.error
    with zipfile.ZipFile(raw / "all.zip", "w") as archive:
        archive.writestr("x.dcm", radiograph(1))
    done = cli(*words, "--dicom_attributes", "view")
    assert "the images are in archives; expected files, or no listing" in done.error


def test_the_key_is_not_in_what_travels_to_workers(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(SECRET)
    dataset_ = Folder(dicom_attributes="all", hash_key=str(tmp_path / "key"))
    assert SECRET not in repr(dataset_.config())
    assert SECRET not in io.StringIO(str(vars(dataset_))).read()


FILM = np.random.default_rng(5).integers(0, 256, (5, 16, 20)).astype(np.uint8)
SPACINGS = [{"PixelMeasuresSequence": {"PixelSpacing": [n / 10, 0.2]}} for n in range(1, 6)]


@pytest.fixture
def films(tmp_path: Path) -> Path:
    """In each class six films of 5 frames and an image of one; a name is in both classes."""
    for number in range(12):
        film = FILM + np.uint8(number)
        place = tmp_path / "raw" / ("ill" if number % 2 else "well") / f"{number}.dcm"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(file(several(film, shared={}, each=SPACINGS, PatientID=f"P{number}")))
    for name in ("ill", "well"):
        (tmp_path / "raw" / name / "one.dcm").write_bytes(file(dataset(FILM[0])))
    (tmp_path / "key").write_text(f"{SECRET}\n")
    return tmp_path / "raw"


def levels_in(out: Path, *splits: str) -> dict[str, Any]:
    every = [record for split in splits or ("train",) for record in dataprep.open(out, split)]
    return {record.key: record.array()[..., 0] for record in every}


@pytest.mark.parametrize("form", everyday(["listing", "tar.xz"], ["folders", "zip"]))
def test_every_frame_is_an_image_and_its_file_a_group(
    form: str, films: Path, tmp_path: Path
) -> None:
    out, paths = tmp_path / "out", sorted(films.rglob("*.dcm"))
    more: dict[str, Any] = {}
    if form == "listing":
        lines = ["path,label", *(f"{it.relative_to(films)},{it.parent.name}" for it in paths)]
        (tmp_path / "list.csv").write_text("\n".join(lines))
        more = {"listing": tmp_path / "list.csv"}
    elif form != "folders":
        packed = tmp_path / "packed"
        packed.mkdir()
        if form == "zip":
            with zipfile.ZipFile(packed / "all.zip", "w", zipfile.ZIP_DEFLATED) as archive:
                for path in paths:
                    archive.write(path, str(path.relative_to(films)))
        else:
            with tarfile.open(packed / "all.tar.xz", "w:xz") as tar:
                for path in paths:
                    tar.add(path, str(path.relative_to(films)))
        films = packed
    dataprep.folder(
        films,
        out,
        frames="all",
        fractions={"train": 0.5, "test": 0.5},
        dicom_attributes=["row_spacing"],
        sink="webdataset",
        dicom_window="full",
        encoding="png",
        **more,
    )
    rows = rows_of(out, "stored", "repaired")
    splits: dict[str, set[str]] = {}
    for row in rows:
        splits.setdefault(row["key"].partition("#")[0], set()).add(row["split"])
    assert all(len(found) == 1 for found in splits.values())
    assert {split for (split,) in splits.values()} == {"train", "test"}
    assert len(rows) == 62
    spacing = {row["key"]: row["row_spacing"] for row in rows}
    made = levels_in(out, "train", "test")
    assert {"ill/one.dcm", "well/one.dcm"} < made.keys()
    for number in range(12):
        for frame in range(1, 6):
            key = f"{'ill' if number % 2 else 'well'}/{number}.dcm#{frame}"
            assert np.array_equal(made[key], FILM[frame - 1] + np.uint8(number))
            assert spacing[key] == frame / 10


@pytest.mark.parametrize(("frames", "number"), [("first", 1), ("middle", 3)])
def test_one_frame_of_a_file_keeps_its_name(
    frames: Literal["first", "middle"], number: int, films: Path, tmp_path: Path
) -> None:
    dataprep.folder(films, tmp_path / "out", frames=frames, dicom_window="full", encoding="png")
    made = levels_in(tmp_path / "out")
    assert len(made) == 14
    assert np.array_equal(made["ill/5.dcm"], FILM[number - 1] + np.uint8(5))


def test_keys_that_are_hashes_tell_no_frame(films: Path, tmp_path: Path, cli: Cli) -> None:
    words = ("folder", "--raw", films, "--out", tmp_path / "out", "--hash_key", tmp_path / "key")
    done = cli(*words, "--frames", "all", "--hash_keys", "--workers", 1)
    assert done.code == 0, done
    keys = {row["key"] for row in rows_of(tmp_path / "out", "repaired")}
    assert hashed("key", "ill/5.dcm#2") in keys
    assert len(keys) == 62


def test_without_the_option_frames_are_refused_by_its_name(films: Path, tmp_path: Path) -> None:
    dataprep.folder(films, tmp_path / "out", max_bad=12)
    reasons = {row["reason"] for row in rows_of(tmp_path / "out", "rejected")}
    assert reasons == {
        "DICOM of 5 frames, expected an image of one; --frames first, middle or all takes them"
    }
