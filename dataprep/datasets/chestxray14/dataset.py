"""ChestX-ray14, the NIH's 112,120 frontal radiographs with up to 14 findings each."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final, Literal

from dataprep.archives.containers import list_container, stat_fingerprint
from dataprep.datasets.base import Attribute, Dataset, Found, Option, ScanUnit, wanted_splits
from dataprep.datasets.chestxray14.images import ImageUnit, find_images
from dataprep.datasets.chestxray14.lists import Lists, describe, find_lists, read_listed
from dataprep.datasets.chestxray14.options import OPTIONS, SIDE_LISTS, read_settings
from dataprep.index import Scanned

# The NIH's lists, which no patient is in both of: 28,008 and 2,797 patients.
_OFFICIAL_TRAIN_VALIDATION: Final = 86_524
_OFFICIAL_TEST: Final = 25_596
# Part of every fingerprint: raise it whenever the same raw data would scan differently.
_SCAN_RULES: Final = 4


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
    OPTIONS: ClassVar[tuple[Option, ...]] = OPTIONS
    defaults: ClassVar[Mapping[str, str]] = {"color": "gray"}
    attributes = (
        Attribute("patient_id", "int"),
        Attribute("view", "text"),
        Attribute("age", "int"),
        Attribute("gender", "text"),
        Attribute("follow_up", "int"),
    )
    formats: ClassVar[frozenset[Literal["JPEG", "PNG"]]] = frozenset({"PNG", "JPEG"})
    group: ClassVar[str] = "patient"

    def __init__(self, **options: str) -> None:
        super().__init__(**options)
        self._settings = read_settings(self.options)

    @property
    def multilabel(self) -> bool:
        """An image has any number of the findings; of "No Finding" it has none."""
        return True

    @property
    def has_boxes(self) -> bool:
        """Radiologists marked findings in 880 images."""
        return True

    def classes(self) -> Sequence[tuple[str, str]]:
        """The 14 findings, in the order asked for."""
        return [(finding, finding) for finding in self._settings.order]

    def find(self, raw: Path, splits: Sequence[str] | None) -> Found:
        """Find the images and the lists; the lists are read and checked against each other.

        Raises:
            SourceError: images or a list are missing, are there in two forms, or a list cannot be
                used; the official lists share a patient.
            UsageError: `splits` is empty or names a split that there is not.
        """
        wanted = wanted_splits(self._settings.splits, splits)
        images = find_images(raw)
        lists = self._lists(raw)
        return Found(
            description=(images.description, *describe(lists, self._settings.cut)),
            units=(ScanUnit("labels", lists.labels.name), *images.units),
            splits=wanted,
            official_counts=self._official_counts(),
        )

    def scan(self, raw: Path, unit: ScanUnit) -> Scanned:
        """List one archive or folder; or what the lists say, for the images of all of them.

        Raises:
            SourceError: the unit is unreadable or damaged; a list cannot be used.
        """
        if not isinstance(unit, ImageUnit):
            listed, counts = read_listed(self._lists(raw), self._settings.cut)
            return Scanned(tables=(listed,), counts=counts)
        listing = list_container(raw, unit.container, restarts_name=unit.restarts_name)
        members = [image.member(image.name) for image in listing.images]
        ignored = (*unit.stray, *listing.ignored)
        return Scanned(members=members, ignored=ignored, restarts=listing.restarts)

    def fingerprint(self, raw: Path, unit: ScanUnit) -> str:
        """Identify what `scan` would read: a container's size and time, or the lists' content.

        Raises:
            SourceError: something the unit needs is gone or unreadable.
        """
        if isinstance(unit, ImageUnit):
            return json.dumps([_SCAN_RULES, *stat_fingerprint(raw, unit.container)])
        return json.dumps([_SCAN_RULES, *self._lists(raw).fingerprint()])

    def _lists(self, raw: Path) -> Lists:
        return find_lists(raw, self.options, self._settings.official)

    def _official_counts(self) -> dict[str, int]:
        """How many images the NIH's splits have, unless the lists are the user's own."""
        if not self._settings.official or any(option in self.options for option in SIDE_LISTS):
            return {}
        whole = "validation" not in self._settings.splits
        train = {"train": _OFFICIAL_TRAIN_VALIDATION} if whole else {}
        return {**train, "test": _OFFICIAL_TEST}
