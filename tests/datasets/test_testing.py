"""Every data set of this distribution passes the suite of `dataprep.datasets.testing`.

A small one that is right is broken in one way each: the suite must tell.
"""

from __future__ import annotations

import inspect
import itertools
import json
import shutil
import threading
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, field, make_dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import msgspec
import pytest

from dataprep.datasets import (
    Dataset,
    Field,
    Found,
    ImageNet,
    Row,
    Scanned,
    ScanUnit,
    list_container,
    stat_fingerprint,
    wanted_splits,
)
from dataprep.datasets.base import Classes
from dataprep.datasets.chestxray14.dataset import ChestXray14
from dataprep.datasets.folder.dataset import Folder
from dataprep.datasets.testing import DatasetTests
from dataprep.errors import SourceError
from dataprep.options import FILE, option
from dataprep.synthesize.chestxray14 import synthesize_chestxray14
from dataprep_schemas.fields import BOX_LABELS, BOXES
from tests.conftest import everyday
from tests.datasets.conftest import RawData
from tests.datasets.test_folder import SMALL, split_archives, write_tree
from tests.datasets.test_folder_listing import write_listing

LABELS = "labels.txt"
LISTED = {"train": {"a.jpg": 0, "b.jpg": 1, "c.jpg": 0}, "test": {"d.jpg": 1, "e.jpg": 0}}


def write_toy(raw: Path) -> Path:
    """The raw directory of `Toy`."""
    lines = []
    for split, images in LISTED.items():
        (raw / split).mkdir(parents=True)
        (raw / split / "read me.txt").touch()
        for name, label in images.items():
            (raw / split / name).write_bytes(name.encode() * (label + 1))
            lines.append(f"{split}/{name} {label}")
    (raw / LABELS).write_text("\n".join(lines))
    return raw


@dataclass(frozen=True)
class ToyOptions:
    mood: Literal["good", "bad"] = option("Of no effect.", "good")
    note: Path | None = option("A file that is never read.", None, **FILE)


BOX = (0.0, 0.25, 0.5, 1.0)
FIELDS = (BOXES, BOX_LABELS, Field("age", "int"), Field("view", "text"))


class Toy(Dataset):
    """A folder a split, and a list of labels."""

    name = "toy"
    summary = "Prepare a toy."
    Options = ToyOptions
    facts: ClassVar[dict[str, Any]] = {
        "classes": (("0", "zero"), ("1", "one")),
        "fields": FIELDS,
    }

    # What a broken one makes of what it finds, its rows, and what it scans.
    found: Callable[[Found], Found] = staticmethod(lambda found: found)
    row: Callable[[Row], Row] = staticmethod(lambda row: row)
    scanned: Callable[[Scanned], Scanned] = staticmethod(lambda scanned: scanned)

    def find(self, raw: Path, splits: Sequence[str] | None) -> Found:
        wanted = wanted_splits(tuple(LISTED), splits)
        if not (raw / LABELS).exists():
            raise SourceError(f"no {LABELS}; expected one")
        return self.found(Found(("a toy",), tuple(map(self.unit, wanted)), wanted, **self.facts))

    def unit(self, split: str) -> ScanUnit:
        return ScanUnit(split, split)

    def scan(self, raw: Path, found: Found, unit: ScanUnit) -> Scanned:
        lines = filter(None, (raw / LABELS).read_text().splitlines())
        labels = {name: int(label) for name, label in map(str.split, lines)}
        listing = list_container(raw, unit.container)
        rows = [
            self.row(
                image.row(
                    image.name,
                    (labels[image.container],),
                    fields={
                        "boxes": (BOX,),
                        "box_labels": (labels[image.container],),
                        "age": labels[image.container] + 30,
                        "view": "PA",
                    },
                    group=image.name,
                )
            )
            for image in sorted(listing.images, key=lambda image: image.name)
        ]
        return self.scanned(Scanned({unit.container: rows}, listing.ignored))

    def fingerprint(self, raw: Path, unit: ScanUnit) -> str:
        return json.dumps([stat_fingerprint(raw, unit.container), stat_fingerprint(raw, LABELS)])


class FindsClasses(Toy):
    """Only scanning tells which classes there are."""

    scanned = staticmethod(lambda scanned: replace(scanned, classes=("0", "1")))
    facts: ClassVar[dict[str, Any]] = {**Toy.facts, "classes": None}


class ClassesOfSet(Toy):
    def find(self, raw: Path, splits: Sequence[str] | None) -> Found:
        names = {f"class {number}" for number in range(20)}
        return replace(super().find(raw, splits), classes=tuple((name, name) for name in names))


class PathsAsKeys(Toy):
    def scan(self, raw: Path, found: Found, unit: ScanUnit) -> Scanned:
        scanned = super().scan(raw, found, unit)
        (rows,) = scanned.rows.values()
        rows = [msgspec.structs.replace(row, key=str(raw / row.container)) for row in rows]
        return replace(scanned, rows={unit.container: rows})


@dataclass(frozen=True, slots=True)
class LockedUnit(ScanUnit):
    lock: Any = field(default_factory=threading.Lock, compare=False, repr=False)


calls = itertools.count()


def row(**fields: Any) -> dict[str, Any]:
    """Every row has these fields."""
    return {"row": staticmethod(lambda row: msgspec.structs.replace(row, **fields))}


def more(name: str, text: str, default: Any = None) -> dict[str, Any]:
    """There is one more option."""
    one = ("extra", Literal["y"], option(text, default, name=name))
    bases = (ToyOptions,)
    return {"Options": make_dataclass("More", [one], bases=bases, frozen=True, kw_only=True)}


def facts(**others: Any) -> dict[str, Any]:
    """Something else is found."""
    return {"facts": {**Toy.facts, **others}}


def unit(name: str, container: str = "{}") -> dict[str, Any]:
    """A split's unit has this name and container."""
    return {
        "unit": lambda _, split: ScanUnit(
            name.format(split, call=next(calls)), container.format(split)
        )
    }


def anything(self: Toy, raw: Path, splits: Sequence[str] | None) -> Found:
    """Finds it in an empty directory, too, and takes any split."""
    return Found(("a toy",), tuple(map(self.unit, LISTED)), tuple(LISTED), **self.facts)


BROKEN: dict[str, list[dict[str, Any] | type[Toy]]] = {
    "test_it_declares_itself": [
        {"summary": ""},
        {"name": "Toy Set"},
        {"config": lambda self: {"note": str(self.options.note)}},
        {"config": lambda _: {"call": str(next(calls))}},
        more("extra", ""),
        more("extra-thing", "More."),
        more("extra", "More.", "x"),
        more("extra", "More.", MISSING),
        more("mood", "Again."),
    ],
    "test_its_classes_are_listed_once": [
        facts(classes=(("0", "zero"), ("1", "one"), ("1", "won"))),
        {
            **facts(classes=None),
            "name_classes": lambda _, __, names: Classes([(it, it) for it in names]),
        },
    ],
    "test_what_is_found_can_be_scanned_elsewhere": [
        facts(fields=(*FIELDS, Field("eye colour", "text"))),
        facts(fields=(*FIELDS, Field("size", "int"))),
        unit("toy/{}"),
        unit("toy"),
        {"unit": lambda _, split: ScanUnit("toy" if split == "train" else "Toy", split)},
        unit("{}", "../raw/{}"),
        unit("{}-{call}"),
        {"unit": lambda _, split: LockedUnit(split, split)},
    ],
    "test_what_is_not_there_is_refused": [{"find": anything}],
    "test_a_split_can_be_had_alone": [
        {"found": staticmethod(lambda found: replace(found, splits=tuple(LISTED)))},
    ],
    "test_rows_say_what_they_must": [
        row(key="same"),
        row(labels=(2,)),
        row(labels=(0, 1)),
        {**facts(multilabel=True), **row(labels=(1, 1))},
        facts(classes=None),
        row(fields={"view": ""}),
        row(fields={"boxes": ((0, 10, 20, 30),)}),
        row(fields={"boxes": (BOX, BOX), "box_labels": (0,)}),
        facts(fields=FIELDS[1:]),
        row(group="everybody"),
        {"row": staticmethod(lambda row: msgspec.structs.replace(row, modified=next(calls)))},
    ],
    "test_it_is_the_same_in_another_place_and_process": [ClassesOfSet, PathsAsKeys],
    "test_images_can_be_read": [row(size=0), row(container="/etc/hostname")],
    "test_fingerprints_notice_every_change": [
        {"fingerprint": lambda *_: str(next(calls))},
        {"fingerprint": lambda _, raw, unit: json.dumps(stat_fingerprint(raw, unit.container))},
        {"fingerprint": lambda _, raw, unit: json.dumps(stat_fingerprint(raw, LABELS))},
    ],
    "test_a_container_that_is_gone_is_an_error": [
        {"fingerprint": lambda _, raw, unit: str((raw / unit.container).stat().st_mtime_ns)},
    ],
}


# Those of the other data sets cost a process of a second or two each.
@pytest.mark.thorough
def _elsewhere(suite: DatasetTests, dataset: Dataset, raw: Path, tmp_path: Path) -> None:
    DatasetTests.test_it_is_the_same_in_another_place_and_process(suite, dataset, raw, tmp_path)


class TestToy(DatasetTests):
    @pytest.fixture(params=everyday([Toy], [FindsClasses]), ids=lambda kind: kind.__name__)
    def dataset(self, request: pytest.FixtureRequest) -> Dataset:
        kind: type[Dataset] = request.param
        return kind()

    @pytest.fixture
    def raw(self, tmp_path: Path) -> Path:
        return write_toy(tmp_path / "raw")


class TestImageNet(DatasetTests):
    test_it_is_the_same_in_another_place_and_process = _elsewhere

    @pytest.fixture
    def dataset(self, tmp_path: Path, make_raw: type[RawData]) -> Dataset:
        boxes = tmp_path / "boxes.csv"
        (name, *_) = make_raw.train[make_raw.synsets[0]]
        boxes.write_text(f"{name},0.1,0.2,0.3,0.4\n")
        return ImageNet(bbox_csv=str(boxes))

    @pytest.fixture(params=["tree", "archives"])
    def raw(self, request: pytest.FixtureRequest, tmp_path: Path, make_raw: type[RawData]) -> Path:
        made = make_raw(tmp_path / "raw")
        if request.param == "tree":
            made.train_tree()
            made.validation_classes()
        else:
            made.train_archive()
            made.validation_archive()
        return made.path


@pytest.fixture(
    scope="module",
    params=[
        ("flat", "random-by-patient"),
        pytest.param(("tar.gz", "official"), marks=pytest.mark.thorough),
    ],
    ids=" ".join,
)
def radiographs(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, str]:
    """A raw directory in a layout, and how it is split: each has no part in the other."""
    layout, split = request.param
    raw = tmp_path_factory.mktemp("made") / "raw"
    synthesize_chestxray14(raw, patients=15, archives=2, layout=layout, size=8)
    return raw, split


class TestChestXray14(DatasetTests):
    test_it_is_the_same_in_another_place_and_process = _elsewhere

    @pytest.fixture
    def dataset(self, radiographs: tuple[Path, str]) -> Dataset:
        # So large a share that all three splits have patients.
        return ChestXray14(split=radiographs[1], validation_fraction="0.3")

    @pytest.fixture
    def raw(self, radiographs: tuple[Path, str], tmp_path: Path) -> Path:
        return Path(shutil.copytree(radiographs[0], tmp_path / "raw"))


class TestFolder(DatasetTests):
    test_it_is_the_same_in_another_place_and_process = _elsewhere

    @pytest.fixture
    def dataset(self) -> Dataset:
        return Folder()

    @pytest.fixture(params=everyday(["folders", ".zip"], [".tar.gz"]))
    def raw(self, request: pytest.FixtureRequest, tmp_path: Path) -> Path:
        if request.param == "folders":
            write_tree(tmp_path / "raw", SMALL)
        else:
            split_archives(tmp_path / "raw", request.param)
        return tmp_path / "raw"


class TestFolderWithListing(DatasetTests):
    # Where the images are does not matter: the listing says which there are.
    test_what_is_not_there_is_refused = None  # type: ignore[assignment]  # not collected
    test_it_is_the_same_in_another_place_and_process = _elsewhere

    @pytest.fixture
    def dataset(self, raw: Path) -> Dataset:
        return Folder(listing=str(raw / "listing.csv"), label_separator="|")

    @pytest.fixture
    def raw(self, tmp_path: Path) -> Path:
        write_tree(tmp_path / "raw", SMALL)
        rows = [{"path": path, "label": "a|b", "split": path.partition("/")[0]} for path in SMALL]
        write_listing(tmp_path / "raw/listing.csv", rows)
        return tmp_path / "raw"


def complaint(kind: type[Dataset], test: str, tmp_path: Path) -> BaseException | None:
    """What a test of the suite says of a data set; None if it finds nothing."""
    (tmp_path / "note.txt").touch()
    fixtures = {
        "dataset": kind(note=str(tmp_path / "note.txt")),
        "raw": write_toy(tmp_path / "raw"),
        "tmp_path": tmp_path,
    }
    method = getattr(DatasetTests(), test)
    try:
        method(**{name: fixtures[name] for name in inspect.signature(method).parameters})
    except (pytest.fail.Exception, Exception) as error:  # noqa: BLE001
        return error
    return None


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("test", "how"), [(test, how) for test, ways in BROKEN.items() for how in ways]
)
def test_the_suite_finds_what_is_broken(
    tmp_path: Path, test: str, how: dict[str, Any] | type[Toy]
) -> None:
    if isinstance(how, dict):
        assert complaint(type("Broken", (Toy,), how), test, tmp_path)
    else:
        assert "the same" in str(complaint(how, test, tmp_path))


def test_every_test_of_the_suite_has_found_something() -> None:
    assert sorted(BROKEN) == sorted(name for name in dir(DatasetTests) if name.startswith("test_"))
