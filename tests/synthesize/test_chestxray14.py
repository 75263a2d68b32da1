"""The made-up ChestX-ray14 has the published layout, and the odd images that it promises."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dataprep.errors import DatasetError, UsageError
from dataprep.synthesize.chestxray14.dataset import ChestXray14Summary, synthesize_chestxray14
from dataprep.synthesize.chestxray14.layouts import ChestXray14Layout
from dataprep.synthesize.chestxray14.plan import plan_chestxray14
from dataprep.synthesize.chestxray14.radiograph import radiograph
from dataprep.synthesize.staging import MARKER

DOCUMENTS = {
    "Data_Entry_2017_v2020.csv",
    "train_val_list.txt",
    "test_list.txt",
    "BBox_List_2017.csv",
}
PLAN = plan_chestxray14(patients=9, archives=3, defects=True)


def write(directory: Path, layout: ChestXray14Layout, threads: int = 2) -> ChestXray14Summary:
    return synthesize_chestxray14(directory, PLAN, layout=layout, size=16, threads=threads)


def archived(directory: Path) -> dict[str, dict[str, bytes]]:
    """Members by name, by archive, read with the standard library alone."""
    found: dict[str, dict[str, bytes]] = {}
    for path in sorted(directory.iterdir()):
        if path.name.endswith(".zip"):
            with zipfile.ZipFile(path) as packed:
                assert packed.testzip() is None
                found[path.name] = {name: packed.read(name) for name in packed.namelist()}
        elif ".tar" in path.name:
            with tarfile.open(path) as archive:
                members = archive.getmembers()
                assert all(member.isreg() for member in members)
                found[path.name] = {
                    member.name: archive.extractfile(member).read() for member in members
                }
        elif path.is_dir():
            files = [file for file in sorted(path.rglob("*")) if file.is_file()]
            found[path.name] = {
                file.relative_to(path).as_posix(): file.read_bytes() for file in files
            }
    return found


def flattened(directory: Path) -> dict[str, bytes]:
    return {
        name.rpartition("/")[2]: content
        for members in archived(directory).values()
        for name, content in members.items()
    }


def bytes_of(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ChestXray14Summary]:
    directory = tmp_path_factory.mktemp("tar.gz") / "raw"
    return directory, write(directory, "tar.gz")


def test_the_default_is_the_published_layout(published: tuple[Path, ChestXray14Summary]) -> None:
    directory, summary = published
    archives = archived(directory)
    assert list(archives) == [f"images_{number:03d}.tar.gz" for number in (1, 2, 3)]
    assert {path.name for path in directory.iterdir()} == {*archives, *DOCUMENTS, MARKER}
    members = [name for archive in archives.values() for name in archive]
    assert all(name.startswith("images/") for name in members)
    assert members == sorted(members)
    assert summary.images == len(members) == len(set(members)) == PLAN.total
    assert summary.image_bytes == sum(map(len, flattened(directory).values()))
    assert (summary.archives, summary.patients) == (3, 9)


@pytest.mark.parametrize(
    ("layout", "names"),
    [
        ("tar", ["images_001.tar", "images_002.tar", "images_003.tar"]),
        ("zip", ["images_001.zip", "images_002.zip", "images_003.zip"]),
        ("folders", ["images_001", "images_002", "images_003"]),
    ],
)
def test_the_layouts_hold_the_same_members(
    tmp_path: Path,
    published: tuple[Path, ChestXray14Summary],
    layout: ChestXray14Layout,
    names: list[str],
) -> None:
    write(tmp_path, layout)
    archives = archived(tmp_path)
    assert list(archives) == names
    assert list(archives.values()) == list(archived(published[0]).values())


def test_flat_is_one_folder_of_the_same_images(
    tmp_path: Path, published: tuple[Path, ChestXray14Summary]
) -> None:
    write(tmp_path, "flat")
    assert list(archived(tmp_path)) == ["images"]
    assert all("/" not in name for name in archived(tmp_path)["images"])
    assert flattened(tmp_path) == flattened(published[0])


@pytest.mark.parametrize("threads", [1, 5])
def test_equal_arguments_give_equal_bytes_on_any_number_of_threads(
    tmp_path: Path, published: tuple[Path, ChestXray14Summary], threads: int
) -> None:
    write(tmp_path, "tar.gz", threads)
    assert bytes_of(tmp_path) == bytes_of(published[0])


def test_zips_are_equal_from_run_to_run(tmp_path: Path) -> None:
    for name in ("first", "second"):
        write(tmp_path / name, "zip")
    assert bytes_of(tmp_path / "first") == bytes_of(tmp_path / "second")


def test_special_images_are_what_they_are_said_to_be(
    published: tuple[Path, ChestXray14Summary],
) -> None:
    directory, summary = published
    images = flattened(directory)
    specials = [(image.special, image.name) for image in summary.special_images]
    assert sorted(special for special, _ in specials) == [
        "missing",
        "palette",
        "rgba",
        "rgba",
        "sixteen_bit",
        "truncated",
        "unlisted",
    ]
    by_special = dict(specials)
    expected = {"rgba": "RGBA", "palette": "P", "sixteen_bit": "I;16", "unlisted": "L"}
    for special, mode in expected.items():
        assert opened(images[by_special[special]]).mode == mode
    with pytest.raises(OSError, match="truncated"):
        opened(images[by_special["truncated"]])
    odd = {name for special, name in specials if special not in ("missing", "unlisted")}
    assert {opened(images[name]).mode for name in images.keys() - odd} == {"L"}
    assert all(
        opened(content).size == (16, 16)
        for name, content in images.items()
        if name != by_special["truncated"]
    )


def test_the_missing_image_is_listed_and_the_unlisted_one_is_not(
    published: tuple[Path, ChestXray14Summary],
) -> None:
    directory, summary = published
    by_special = {image.special: image.name for image in summary.special_images}
    lines = (directory / "Data_Entry_2017_v2020.csv").read_text().splitlines()[1:]
    listed = {line.split(",")[0] for line in lines}
    official = {
        name
        for document in ("train_val_list.txt", "test_list.txt")
        for name in (directory / document).read_text().split("\n")
    }
    assert official == listed
    assert listed - flattened(directory).keys() == {by_special["missing"]}
    assert flattened(directory).keys() - listed == {by_special["unlisted"]}


def test_odd_encodings_show_the_same_greys(published: tuple[Path, ChestXray14Summary]) -> None:
    directory, summary = published
    images = flattened(directory)
    planned = {image.name: image for image in PLAN.radiographs()}
    for special in summary.special_images:
        if special.special not in ("rgba", "palette", "sixteen_bit"):
            continue
        image = planned[special.name]
        tokens = [token for token in image.findings.split("|") if token != "No Finding"]
        greys = radiograph(image.seed, 16, tokens)
        shown = np.asarray(opened(images[special.name]))
        if special.special == "rgba":
            assert np.array_equal(shown, np.dstack([greys, greys, greys, np.full_like(greys, 255)]))
        elif special.special == "palette":
            assert np.array_equal(np.asarray(opened(images[special.name]).convert("L")), greys)
            assert not np.array_equal(shown, greys)
        else:
            assert shown.dtype == np.uint16
            assert np.array_equal(shown >> 8, greys)
            assert np.unique(shown & 0xFF).size > 1


def opened(content: bytes) -> Image.Image:
    image = Image.open(io.BytesIO(content))
    assert image.format == "PNG"
    image.load()
    return image


def test_an_archive_whose_only_image_is_missing_is_there_and_empty(tmp_path: Path) -> None:
    plan = plan_chestxray14(patients=9, archives=999, defects=True)
    synthesize_chestxray14(tmp_path, plan, layout="tar", size=8)
    sizes = [len(members) for members in archived(tmp_path).values()]
    assert len(sizes) == plan.total
    assert sizes[6] == 0  # the missing one is the seventh
    assert sizes[-1] == 2  # with the unlisted one
    assert sum(sizes) == plan.total


def test_another_layout_replaces_the_old_one_and_real_data_is_never_replaced(
    tmp_path: Path,
) -> None:
    write(tmp_path, "tar.gz")
    (tmp_path / "notes.txt").write_text("mine")
    synthesize_chestxray14(tmp_path, PLAN, layout="flat", size=8, overwrite=True)
    assert {path.name for path in tmp_path.iterdir()} == {
        "images",
        "notes.txt",
        *DOCUMENTS,
        MARKER,
    }
    # Somebody downloads the real archive next to it.
    (tmp_path / "images_001.tar.gz").write_text("4 GB")
    with pytest.raises(DatasetError, match=r"images_001\.tar\.gz was not written by synthesize"):
        synthesize_chestxray14(tmp_path, PLAN, layout="flat", size=8, overwrite=True)
    assert (tmp_path / "images_001.tar.gz").read_text() == "4 GB"


def test_an_interrupted_run_leaves_nothing(tmp_path: Path) -> None:
    class StopHere(BaseException):
        """Stands for Ctrl-C."""

    def stop(_: int) -> None:
        raise StopHere

    with pytest.raises(StopHere):
        synthesize_chestxray14(tmp_path / "raw", PLAN, size=8, progress=stop)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("size", [0, 7, 4097])
def test_impossible_sizes_are_refused(tmp_path: Path, size: int) -> None:
    with pytest.raises(UsageError, match="size"):
        synthesize_chestxray14(tmp_path / "raw", PLAN, size=size)
    assert not (tmp_path / "raw").exists()


def test_few_images_are_in_memory_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, peak, finished = 0, 0, 0

    def paint(*_: object) -> np.ndarray:
        nonlocal begun, peak
        begun += 1  # one thread only
        peak = max(peak, begun - finished)
        return np.zeros((8, 8), np.uint8)

    def progress(count: int) -> None:
        nonlocal finished
        finished += count

    monkeypatch.setattr("dataprep.synthesize.chestxray14.dataset.radiograph", paint)
    plan = plan_chestxray14(patients=60)
    synthesize_chestxray14(tmp_path, plan, size=8, threads=1, progress=progress)
    assert begun == finished == plan.total
    assert peak <= 4 + 1
