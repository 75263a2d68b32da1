"""Every data set of this distribution passes the conformance suite; broken ones do not."""

from __future__ import annotations

import inspect
import shutil
from importlib.metadata import distribution
from pathlib import Path

import pytest

from dataprep.datasets import Dataset, ImageNet
from dataprep.datasets.chestxray14.dataset import ChestXray14
from dataprep.datasets.conformance import DatasetTests
from dataprep.datasets.folder.dataset import Folder
from dataprep.plugins import DATASETS
from dataprep.synthesize.chestxray14 import synthesize_chestxray14
from tests.datasets.broken_datasets import BROKEN, FindsClasses, Toy, write_toy


class TestToy(DatasetTests):
    @pytest.fixture(params=[Toy, FindsClasses], ids=lambda kind: kind.__name__)
    def dataset(self, request):
        return request.param()

    @pytest.fixture
    def raw(self, tmp_path):
        return write_toy(tmp_path / "raw")


class TestImageNet(DatasetTests):
    @pytest.fixture
    def dataset(self, tmp_path, make_raw):
        boxes = tmp_path / "boxes.csv"
        (name, *_) = make_raw.train[make_raw.synsets[0]]
        boxes.write_text(f"{name},0.1,0.2,0.3,0.4\n")
        return ImageNet(bbox_csv=str(boxes))

    @pytest.fixture(params=["tree", "tars", "archives"])
    def raw(self, request, tmp_path, make_raw):
        made = make_raw(tmp_path / "raw")
        if request.param == "tree":
            made.train_tree()
            made.validation_classes()
        elif request.param == "tars":
            made.train_tars()
            made.validation_flat()
        else:
            made.train_archive()
            made.validation_archive()
        return made.path


@pytest.fixture(scope="module", params=["tar.gz", "flat"])
def radiographs(request, tmp_path_factory):
    raw = tmp_path_factory.mktemp("made") / "raw"
    synthesize_chestxray14(raw, patients=15, archives=2, layout=request.param, size=8)
    return raw


class TestChestXray14(DatasetTests):
    @pytest.fixture(params=["official", "random-by-patient"])
    def dataset(self, request):
        # So large a share that all three splits have patients.
        return ChestXray14(split=request.param, validation_fraction="0.3")

    @pytest.fixture
    def raw(self, radiographs, tmp_path):
        return Path(shutil.copytree(radiographs, tmp_path / "raw"))


class TestFolder(DatasetTests):
    @pytest.fixture
    def dataset(self):
        return Folder()

    @pytest.fixture(params=["folders", "tar.gz", "zip"])
    def raw(self, request, tmp_path):
        raw = write_classes(tmp_path / "raw" / "train")
        write_classes(tmp_path / "raw" / "test")
        return pack(raw.parent, request.param)


class TestFolderWithFractions(DatasetTests):
    @pytest.fixture
    def dataset(self):
        return Folder(fractions="train=0.6,test=0.4", group_by="path")

    @pytest.fixture
    def raw(self, tmp_path):
        return pack(write_classes(tmp_path / "raw"), "tar")


class TestFolderWithListing(DatasetTests):
    # Where the images are does not matter: the listing says which there are.
    test_nothing_is_found_where_nothing_is = None

    @pytest.fixture
    def dataset(self, raw):
        return Folder(listing=str(raw / "listing.csv"), label_separator="|")

    @pytest.fixture
    def raw(self, tmp_path):
        raw = write_classes(tmp_path / "raw" / "train").parent
        write_classes(raw / "test")
        paths = sorted(str(path.relative_to(raw)) for path in raw.rglob("*.jpg"))
        lines = [f"{path},a|b,{path.partition('/')[0]}" for path in paths]
        (raw / "listing.csv").write_text("\n".join(["path,label,split", *lines]) + "\n")
        return raw


def write_classes(raw: Path) -> Path:
    """A folder for each of three classes."""
    for category in ("a", "a-b", "c"):
        (raw / category).mkdir(parents=True)
        for number in range(3):
            content = f"{raw.name} {category} {number} ".encode() * (number + 1)
            (raw / category / f"{number}.jpg").write_bytes(content)
    return raw


def pack(raw: Path, form: str) -> Path:
    """Make an archive of each folder, if that is the form."""
    kinds = {"tar": "tar", "tar.gz": "gztar", "zip": "zip"}
    for folder in list(raw.iterdir()) if form in kinds else ():
        shutil.make_archive(str(folder), kinds[form], folder)
        shutil.rmtree(folder)
    return raw


def complaint(broken: type[Dataset], test: str, tmp_path: Path) -> BaseException | None:
    """What a test of the suite says of a data set; None if it finds nothing."""
    (tmp_path / "note.txt").touch()
    fixtures = {
        "dataset": broken(note=str(tmp_path / "note.txt")),
        "raw": write_toy(tmp_path / "raw"),
        "tmp_path": tmp_path,
    }
    method = getattr(DatasetTests(), test)
    try:
        method(**{name: fixtures[name] for name in inspect.signature(method).parameters})
    except (pytest.fail.Exception, Exception) as error:  # noqa: BLE001
        return error
    return None


TESTS = sorted(name for name in dir(DatasetTests) if name.startswith("test_"))


@pytest.mark.parametrize(("broken", "test"), BROKEN)
def test_the_suite_finds_what_is_broken(tmp_path: Path, broken: type[Dataset], test: str) -> None:
    assert complaint(broken, test, tmp_path)


@pytest.mark.parametrize("test", TESTS)
def test_the_suite_finds_nothing_where_nothing_is_broken(tmp_path: Path, test: str) -> None:
    assert complaint(Toy, test, tmp_path) is None


def test_every_test_of_the_suite_has_found_something() -> None:
    assert sorted({test for _, test in BROKEN}) == TESTS


def test_every_data_set_of_this_distribution_is_tested() -> None:
    points = distribution("dataprep").entry_points.select(group=DATASETS)
    assert {point.name for point in points} == {"imagenet", "chestxray14", "folder"}


@pytest.mark.parametrize("name", ["dataset", "raw"])
def test_a_suite_without_its_fixtures_says_so(name: str) -> None:
    function = inspect.getattr_static(DatasetTests, name)._get_wrapped_function()
    with pytest.raises(TypeError, match=f"DatasetTests needs a fixture `{name}`"):
        function(DatasetTests())
