"""ChestX-ray14, the NIH's 112,120 frontal radiographs with up to 14 findings each."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

from dataprep.archives.containers import (
    container_kind,
    container_stem,
    list_container,
    stat_fingerprint,
)
from dataprep.archives.packed import Copy
from dataprep.datasets.base import Dataset, Found, ScanUnit, wanted_splits
from dataprep.datasets.chestxray14.lists import (
    FINDINGS,
    SIDE_LISTS,
    Lists,
    find_lists,
    fingerprint,
    read_listed,
)
from dataprep.datasets.raw_directory import entries_of, list_raw
from dataprep.datasets.splits import Cut, parse_share
from dataprep.errors import SourceError, UsageError
from dataprep.options import FILE, option, stated
from dataprep.rows import Scanned
from dataprep.system.messages import counted, printable, some_of
from dataprep.system.shares import share_text
from dataprep_schemas.fields import BOX_LABELS, BOXES, Field

_ORDERS: Final = {"canonical": FINDINGS, "alphabetical": tuple(sorted(FINDINGS))}
_TEST_FRACTION: Final = Fraction(1, 5)


@dataclass(frozen=True, kw_only=True)
class ChestXray14Options:
    """What the user says of ChestX-ray14's raw data."""

    label_order: Literal["canonical", "alphabetical"] = option(
        "Order of the 14 findings: CheXNet's, or by name.", "canonical"
    )
    split: Literal["official", "random-by-patient"] = option(
        "Test images by the official lists, or all splits at random. Validation is at random in "
        "both. Always whole patients.",
        "official",
    )
    validation_fraction: Fraction = option(
        "Share of the patients of the official training and validation list, or of all patients "
        "with --split random-by-patient; 0 for no validation split.",
        Fraction(1, 10),
        metavar="SHARE",
        parse=parse_share,
    )
    test_fraction: Fraction | None = option(
        "Share of all patients, only with --split random-by-patient, and then "
        f"{share_text(_TEST_FRACTION)} if not given; 0 for no test split.",
        None,
        metavar="SHARE",
        parse=parse_share,
    )
    split_seed: int = option("Random seed of the splits cut at random.", 0, metavar="INTEGER")
    labels: Path | None = option("Label CSV, if not in the raw directory.", None, **FILE)
    train_val_list: Path | None = option(
        "Official list of training and validation images, if not in the raw directory.",
        None,
        **FILE,
    )
    test_list: Path | None = option(
        "Official list of test images, if not in the raw directory.", None, **FILE
    )
    bbox_csv: Path | None = option("Box list, if not in the raw directory.", None, **FILE)

    def __post_init__(self) -> None:
        """Refuse what cannot be together.

        Raises:
            UsageError: names it.
        """
        official = self.split == "official"
        for name in ("test_fraction",) if official else SIDE_LISTS:
            if getattr(self, name) is not None:
                raise UsageError(
                    f"--{name} has no effect with --split {self.split}; leave it out or use "
                    f"--split {'random-by-patient' if official else 'official'}"
                )
        if sum(self.shares.values()) >= 1:
            raise UsageError("--validation_fraction and --test_fraction leave nothing for training")

    @property
    def shares(self) -> dict[str, Fraction]:
        """Of all patients, or of those of the official training and validation list."""
        shares = {"validation": self.validation_fraction}
        if self.split == "official":
            return shares
        test = _TEST_FRACTION if self.test_fraction is None else self.test_fraction
        return {"test": test, **shares}


FIELDS: Final = (
    *(BOXES, BOX_LABELS),  # radiologists marked findings in 880 images
    Field("patient_id", "int"),
    Field("view", "text"),
    Field("age", "int"),
    Field("gender", "text"),
    Field("follow_up", "int"),
)
# The NIH's lists, which no patient is in both of: 28,008 and 2,797 patients.
_OFFICIAL_TRAIN_VALIDATION: Final = 86_524
_OFFICIAL_TEST: Final = 25_596
_LISTS: Final = "labels"  # the unit of the lists; all others are of images
# Part of every fingerprint: raise it whenever the same raw data would scan differently.
_SCAN_RULES: Final = 6

_EXPECTED: Final = "Data_Entry_2017_v2020.csv and images_001.tar.gz or images/"
# The NIH's folder has images_001.tar.gz, its download script saves images_01.tar.gz.
_PART: Final = re.compile(r"images_([0-9]{2,3})")
_FLAT: Final = "images"


class ChestXray14(Dataset):
    """The NIH's ChestX-ray14 in its archives, unpacked by part, or in one folder.

    Keys are file names, and labels, splits and attributes come from the lists that are published
    with the images, so none of them depends on how the images are kept.
    """

    name: ClassVar[str] = "chestxray14"
    summary: ClassVar[str] = (
        "Prepare ChestX-ray14, the NIH's 112,120 chest radiographs of 30,805 patients.\n\n"
        "The raw directory holds Data_Entry_2017_v2020.csv (or Data_Entry_2017.csv), "
        "train_val_list.txt, test_list.txt and perhaps BBox_List_2017.csv, and the images: "
        "images_001.tar.gz to images_012.tar.gz (also .tar or .zip), the same unpacked, or "
        "images/*.png. No patient is ever in two splits."
    )
    card: ClassVar[Mapping[str, str]] = {
        "name": "NIH ChestX-ray14",
        "description": "Frontal chest radiographs of 30,805 patients with 14 findings, labelled by "
        "text mining of the radiologists' reports.",
        "license": "https://nihcc.app.box.com/v/ChestXray-NIHCC",
        "creator": "NIH Clinical Center",
        "url": "https://nihcc.app.box.com/v/ChestXray-NIHCC",
        "date": "2017-09-27",
        "cite_as": "@inproceedings{wang2017, author={Xiaosong Wang and others}, "
        "title={ChestX-ray8: Hospital-scale Chest X-ray Database and Benchmarks on "
        "Weakly-Supervised Classification and Localization of Common Thorax Diseases}, "
        "booktitle={CVPR}, year={2017}}",
    }
    Options: ClassVar[type[ChestXray14Options]] = ChestXray14Options
    options: ChestXray14Options
    defaults: ClassVar[Mapping[str, str]] = {"color": "gray"}
    formats: ClassVar[frozenset[Literal["JPEG", "PNG"]]] = frozenset({"PNG", "JPEG"})
    group: ClassVar[str] = "patient"

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._official, shares = self.options.split == "official", self.options.shares
        self._cut = Cut(self.options.split_seed, tuple(shares.items()), "train")
        there = {"train": True, "validation": True, "test": self._official, **shares}
        self._splits = tuple(split for split, share in there.items() if share)

    def find(self, raw: Path, splits: Sequence[str] | None) -> Found:
        """Find the images and the lists."""
        wanted = wanted_splits(self._splits, splits)
        described, units = _find_images(raw)
        lists = self._lists(raw)
        return Found(
            description=(
                described,
                f"lists: {', '.join(printable(path.name) for path in lists.values())}",
            ),
            units=(ScanUnit(_LISTS, lists["labels"].name), *units),
            splits=wanted,
            classes=tuple((name, name) for name in _ORDERS[self.options.label_order]),
            multilabel=True,  # of "No Finding" an image has none
            fields=FIELDS,
            official_counts=self._official_counts(),
        )

    def scan(self, raw: Path, found: Found, unit: ScanUnit) -> Scanned:
        """List one archive or folder; or what the lists say, for the images of all of them."""
        del found
        if unit.name == _LISTS:
            listed, counts = read_listed(self._lists(raw), self._cut)
            return Scanned(tables=(listed,), counts=counts)
        return unit.scanned(partial(self._members, raw, unit))

    def _members(self, raw: Path, unit: ScanUnit, copy: Copy | None) -> Scanned:
        name = unit.restarts_name
        listing = list_container(raw, unit.container, restarts_name=name, copy=copy)
        members = [image.row(image.name, ()) for image in listing.images]
        return Scanned(members=members, ignored=listing.ignored, restarts=listing.restarts)

    def fingerprint(self, raw: Path, unit: ScanUnit) -> str:
        """Identify what `scan` would read: a container's size and time, or the lists' content."""
        lists = unit.name == _LISTS
        seen = fingerprint(self._lists(raw)) if lists else stat_fingerprint(raw, unit.container)
        return json.dumps([_SCAN_RULES, *seen])

    def _lists(self, raw: Path) -> Lists:
        return find_lists(raw, stated(self.options), official=self._official)

    def _official_counts(self) -> dict[str, int]:
        """How many images the NIH's splits have, unless the lists are the user's own."""
        if not self._official or any(getattr(self.options, name) for name in SIDE_LISTS):
            return {}
        whole = "validation" not in self._splits
        train = {"train": _OFFICIAL_TRAIN_VALIDATION} if whole else {}
        return {**train, "test": _OFFICIAL_TEST}


def _find_images(raw: Path) -> tuple[str, tuple[ScanUnit, ...]]:
    """Find the archives, folders of parts or flat folder of images, there and in ``images/``.

    Directories are listed; no archive is opened.

    Returns:
        A line for the terminal, and what to scan.
    """
    names = list_raw(raw, _EXPECTED)
    found: dict[str, str] = {}
    for unit, container in _containers(raw):
        other = found.setdefault(unit, container)
        if other != container or (unit != _FLAT and _FLAT in found):
            raise SourceError(
                f"found images in {printable(found.get(_FLAT, other))} and in "
                f"{printable(container)}; expected each part of the images in one form only; move "
                "what should not be read out of the raw directory"
            )
    if not found:
        raise SourceError(
            f"no images in {printable(str(raw))}; looked for images_001.tar.gz (also .tar, .tgz "
            "and .zip), images_001/ and images/*.png, there and in images/; found "
            f"{some_of(names) if names else 'nothing'}; check --raw"
        )
    units = tuple(ScanUnit(unit, container) for unit, container in found.items())
    return f"images: {_describe(list(found.values()))}", units


def _containers(raw: Path) -> list[tuple[str, str]]:
    """The name of a unit and its archive or folder; a part that is there twice is so here, too."""
    found: list[tuple[str, str]] = []
    levels = [entries_of(raw, "")]
    for level in levels:
        for name in level.archives:
            if part := _PART.fullmatch(container_stem(name)):
                found.append((f"{_FLAT}_{int(part[1]):03d}", level.at(name)))
        for name in level.folders:
            part = _PART.fullmatch(name)
            if not (part or name == _FLAT):
                continue
            inner = entries_of(raw, level.at(name))
            places = [inner]
            if part and _FLAT in inner.folders:  # as in the archive
                places.append(entries_of(raw, inner.at(_FLAT)))
            elif level is levels[0] and not part:
                levels.append(inner)
            unit = f"{_FLAT}_{int(part[1]):03d}" if part else _FLAT
            found += [(unit, place.path) for place in places if place.images]
    return sorted(found)


def _describe(containers: Sequence[str]) -> str:
    folders = [container for container in containers if not container_kind(container)]
    archives = [container for container in containers if container_kind(container)]
    return " and ".join(
        f"{counted(len(each), noun)}, {' to '.join(dict.fromkeys((each[0], each[-1])))}"
        for noun, each in (("archive", archives), ("folder", folders))
        if each
    )
