"""The Oxford-IIIT Pet data set: dataprep's suite, and the command from end to end."""

from __future__ import annotations

import io
import json
import tarfile
import zipfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import dataprep
import pytest
from dataprep.cli import main
from dataprep.datasets.testing import DatasetTests
from dataprep.errors import SourceError, UsageError
from dataprep.plugins import load_dataset
from dataprep.rows import Row
from PIL import Image
from pyarrow import parquet

from dataprep_pets import Pets
from dataprep_pets.lists import BREEDS

LISTED = {
    "trainval": [f"{breed}_{n}" for breed in ("Abyssinian", "beagle", "Sphynx") for n in (2, 10)],
    "test": ["Abyssinian_1", "beagle_1"],
}
CATS = ("Abyssinian", "Sphynx")
SPLITS = {
    "train": [f"{breed}_{n}.jpg" for breed in ("Abyssinian", "Sphynx", "beagle") for n in (10, 2)],
    "test": ["Abyssinian_1.jpg", "beagle_1.jpg"],
}
FORMS = ("images", "images.tar", "images.tar.gz", "images.zip")


def line_of(name: str) -> str:
    breed = name.rpartition("_")[0]
    return f"{name} {BREEDS.index(breed) + 1} {1 if breed in CATS else 2} 1"


def photograph(name: str) -> bytes:
    """A small JPEG, another one for every name."""
    file = io.BytesIO()
    Image.new("RGB", (24, 16), (*name.encode()[:2], len(name) * 9)).save(file, "JPEG")
    return file.getvalue()


def write_lists(raw: Path, lists: Mapping[str, list[str]] = LISTED) -> None:
    (raw / "annotations").mkdir(parents=True, exist_ok=True)
    for name, listed in lists.items():
        lines = ["# Image CLASS-ID SPECIES BREED ID", *map(line_of, listed), ""]
        (raw / "annotations" / f"{name}.txt").write_text("\n".join(lines))


def write_images(raw: Path, form: str = "images") -> None:
    files = {f"{name}.jpg": photograph(name) for names in LISTED.values() for name in names}
    if form.endswith(".zip"):
        with zipfile.ZipFile(raw / form, "w") as archive:
            for name, content in files.items():
                archive.writestr(f"images/{name}", content)
    elif "." in form:
        with tarfile.open(raw / form, "w:gz" if form.endswith("gz") else "w") as tar:
            for name, content in files.items():
                info = tarfile.TarInfo(f"images/{name}")
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    else:
        (raw / form).mkdir()
        for name, content in files.items():
            (raw / form / name).write_bytes(content)


def make_raw(raw: Path, form: str = "images") -> Path:
    write_lists(raw)
    write_images(raw, form)
    return raw


class TestConformance(DatasetTests):
    @pytest.fixture(params=["0", "0.4"])
    def dataset(self, request: pytest.FixtureRequest) -> Pets:
        return Pets(validation_fraction=request.param)

    @pytest.fixture(params=FORMS)
    def raw(self, request: pytest.FixtureRequest, tmp_path: Path) -> Path:
        return make_raw(tmp_path / "raw", request.param)


def rows_of(raw: Path, **options: str) -> dict[str, list[Row]]:
    dataset = Pets(**options)
    found = dataset.find(raw, None)
    scanned = dataset.scan(raw, found, found.units[0])
    return {split: list(rows) for split, rows in scanned.rows.items()}


def prepare(raw: Path, out: Path, *words: str) -> int:
    """The command that users give."""
    return main(["pets", "--raw_data_dir", str(raw), "--local_scratch_dir", str(out), *words])


@pytest.mark.parametrize("form", FORMS)
def test_the_command_makes_verified_shards(tmp_path: Path, form: str) -> None:
    out = tmp_path / "out"
    assert prepare(make_raw(tmp_path / "raw", form), out, "--num_shards", "1") == 0
    assert main(["verify", str(out), "--level", "decode"]) == 0
    for split, names in SPLITS.items():
        records = dataprep.open(out, split)
        assert sorted(example.key for example in records) == names
        for example in records:
            name = example.key.removesuffix(".jpg")
            breed = name.rpartition("_")[0]
            assert example.encoded == photograph(name)
            assert BREEDS[example.class_index] == example.synset == breed
            assert example.class_name == breed.replace("_", " ")
            assert example.fields == {"species": "cat" if breed in CATS else "dog"}


def test_every_form_of_the_images_gives_the_same_bytes(tmp_path: Path) -> None:
    hashes = set()
    for form in FORMS:
        out = tmp_path / f"out-{form}"
        assert prepare(make_raw(tmp_path / f"raw-{form}", form), out) == 0
        manifest = json.loads((out / "manifest.json").read_text())
        hashes.add(json.dumps(manifest["splits"], sort_keys=True))
    assert len(hashes) == 1


def test_what_is_not_listed_and_what_is_missing_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    raw, out = make_raw(tmp_path / "raw"), tmp_path / "out"
    (raw / "images" / "beagle_1.jpg").rename(raw / "images" / "beagle_3.jpg")
    assert prepare(raw, out) == 3
    assert "1 image listed but not there" in capsys.readouterr().err
    assert prepare(raw, out, "--max_bad", "2") == 0
    rows = parquet.read_table(out / "records.parquet").to_pylist()
    columns = ("status", "split", "key", "container")
    assert [tuple(row[name] for name in columns) for row in rows if row["shard"] is None] == [
        ("missing", "test", "beagle_1.jpg", "annotations/test.txt"),
        ("unlisted", None, "beagle_3.jpg", "images"),
    ]


def test_a_validation_split_is_cut_from_trainval_alone(tmp_path: Path) -> None:
    lists = {
        "trainval": [f"beagle_{number}" for number in range(1000)],
        "test": [f"beagle_{number}" for number in range(1000, 1100)],
    }
    raw = tmp_path / "raw"
    write_lists(raw, lists)
    dataset = Pets(validation_fraction="0.25")
    (raw / "images").mkdir(exist_ok=True)
    found = dataset.find(raw, None)
    scanned = dataset.scan(raw, found, found.units[0])
    missing = Counter(entry.split for entry in scanned.unmatched)
    assert missing["test"] == 100
    assert 200 < missing["validation"] < 300
    assert missing["train"] == 1000 - missing["validation"]


def test_labels_are_the_numbers_of_the_lists_from_zero(tmp_path: Path) -> None:
    rows = rows_of(make_raw(tmp_path / "raw"))
    labels = {row.key: row.labels for row in rows["train"]}
    assert labels["Abyssinian_2.jpg"] == (0,)
    assert labels["beagle_2.jpg"] == (4,)
    assert labels["Sphynx_2.jpg"] == (33,)
    assert len(BREEDS) == 37


@pytest.mark.parametrize(
    "line",
    ["beagle_3 5 2", "beagle_3 4 2 1", "beagle_3 5 3 1", "dodo_1 0 2 1", "beagle 5 2 1"],
)
def test_a_wrong_line_is_named(tmp_path: Path, line: str) -> None:
    raw = make_raw(tmp_path / "raw")
    with (raw / "annotations" / "test.txt").open("a") as file:
        file.write(line)
    with pytest.raises(SourceError, match=rf"line 4 of annotations/test\.txt is '{line}'"):
        Pets().find(raw, None)


def test_an_image_in_both_lists_is_refused(tmp_path: Path) -> None:
    raw = make_raw(tmp_path / "raw")
    write_lists(raw, {"test": [*LISTED["test"], "Sphynx_2"]})
    with pytest.raises(SourceError, match=r"line 4 of .*test\.txt lists Sphynx_2 a second"):
        Pets().find(raw, None)


def test_images_in_two_forms_are_refused(tmp_path: Path) -> None:
    raw = make_raw(tmp_path / "raw")
    write_images(raw, "images.tar")
    with pytest.raises(SourceError, match=r"has images and images\.tar; expected one of"):
        Pets().find(raw, None)


def test_packed_lists_are_to_be_unpacked(tmp_path: Path) -> None:
    write_images(tmp_path)
    (tmp_path / "annotations.tar.gz").touch()
    with pytest.raises(SourceError, match=r"tar -xzf annotations\.tar\.gz"):
        Pets().find(tmp_path, None)


@pytest.mark.parametrize("splits", [(), ("validation",), ("train", "val")])
def test_splits_that_there_are_not_are_refused(tmp_path: Path, splits: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="the splits are train, test"):
        Pets().find(make_raw(tmp_path / "raw"), splits)


def test_dataprep_finds_the_plugin() -> None:
    assert type(load_dataset("pets")) is Pets
