"""ChestX-ray14, the NIH's 112,120 frontal radiographs with up to 14 findings each."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import ClassVar, Final, Literal

from dataprep.errors import SourceError
from dataprep.index import Row, Scanned, Unmatched
from dataprep.sources.base import Attribute, Dataset, Found, Option, ScanUnit, wanted_splits
from dataprep.sources.chestxray14.boxes import MarkedFinding, load_boxes
from dataprep.sources.chestxray14.files import Lists, find_lists
from dataprep.sources.chestxray14.labels import shown
from dataprep.sources.chestxray14.layout import ImageUnit, find_images
from dataprep.sources.chestxray14.options import (
    BY_PATIENT,
    OPTIONS,
    SIDE_LISTS,
    read_settings,
)
from dataprep.sources.chestxray14.splits import Assignment, assign, group_of
from dataprep.sources.containers.kinds import list_container, witness
from dataprep.sources.containers.listing import Listing, StoredImage
from dataprep.wording import counted, printable, some_of

# The NIH's lists, which no patient is in both of: 28,008 and 2,797 patients.
_OFFICIAL_TRAIN_VALIDATION: Final = 86_524
_OFFICIAL_TEST: Final = 25_596
# Part of every fingerprint: raise it whenever the same raw data would scan differently.
_SCAN_RULES: Final = 2


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
    attributes: ClassVar[tuple[Attribute, ...]] = (
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

    def config(self) -> Mapping[str, str]:
        """The options that shape the index, each written in one way only; no paths."""
        return self._settings.config()

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
        assignment = assign(lists, self._settings.cut)
        lines = (_labels_line(lists, assignment), _splits_line(lists, assignment))
        return Found(
            description=(images.description, *lines, _boxes_line(lists)),
            units=images.units,
            splits=wanted,
            official_counts=self._official_counts(),
        )

    def scan(self, raw: Path, unit: ScanUnit) -> Scanned:
        """List one archive or folder: the rows of every split, whichever were asked for.

        Raises:
            SourceError: the unit is unreadable, damaged or holds a file name twice; an image is in
                neither official list; a list cannot be used.
        """
        lists = self._lists(raw)
        assignment = assign(lists, self._settings.cut)
        boxes = load_boxes(lists.boxes) if lists.boxes else {}
        listing = list_container(raw, unit.container, restarts_name=unit.restarts_name)
        images = sorted(listing.images, key=lambda image: image.name)
        _require_unique(images, unit)
        counts: Counter[str] = Counter()
        rows: dict[str, list[Row]] = {split: [] for split in self._settings.splits}
        unlisted: list[Unmatched] = []
        unassigned: list[str] = []
        for image in images:
            position = assignment.table.rows.get(image.name)
            if position is None:
                unlisted.append(Unmatched("unlisted", image.name, unit.container))
            elif split := assignment.split_of(position):
                marked = boxes.get(image.name, ())
                rows[split].append(self._row(image, assignment, position, marked, counts))
            else:
                unassigned.append(image.name)
        if unassigned:
            raise _unassigned(unassigned, lists)
        return _scanned(unit, listing, rows, unlisted, counts)

    def fingerprint(self, raw: Path, unit: ScanUnit) -> str:
        """Identify what `scan` would read: the container's size and time, each list's content.

        Raises:
            SourceError: something the unit needs is gone or unreadable.
        """
        seen = [_SCAN_RULES, witness(raw, unit.container), self._lists(raw).witnesses]
        return json.dumps(seen, separators=(",", ":"))

    def missing(
        self, raw: Path, splits: Sequence[str] | None, present: Iterable[str]
    ) -> Iterator[Unmatched]:
        """Images of the label CSV that no unit holds, sorted by name.

        An image that neither official list names belongs to no split and is not missed.
        """
        wanted = wanted_splits(self._settings.splits, splits)
        assignment = assign(self._lists(raw), self._settings.cut)
        rows = assignment.table.rows
        seen = bytearray(len(rows))
        for key in present:
            if (position := rows.get(key)) is not None:
                seen[position] = True
        for name in sorted(name for name, position in rows.items() if not seen[position]):
            split = assignment.split_of(rows[name])
            if split in wanted:
                yield Unmatched("missing", name, assignment.table.place, split)

    def _row(
        self,
        image: StoredImage,
        assignment: Assignment,
        position: int,
        marked: Sequence[MarkedFinding],
        counts: Counter[str],
    ) -> Row:
        table = assignment.table
        labels = shown(table.findings[position], self._settings.order)
        box_labels = tuple(self._settings.order.index(entry.finding) for entry in marked)
        counts["age out of range"] += table.is_age_out_of_range(position)
        counts["box clipped to its image"] += sum(entry.clipped for entry in marked)
        counts["box of a finding its image is not labelled with"] += sum(
            label not in labels for label in box_labels
        )
        return Row(
            image.name,
            image.container,
            image.offset,
            image.size,
            image.modified,
            labels,
            boxes=tuple(entry.box for entry in marked),
            box_labels=box_labels,
            attributes=table.attributes(position),
            group=group_of(table, position),
            packing=image.packing,
        )

    def _lists(self, raw: Path) -> Lists:
        return find_lists(raw, self.options, self._settings.official)

    def _official_counts(self) -> dict[str, int]:
        """How many images the NIH's splits have, unless the lists are the user's own."""
        if not self._settings.official or any(option in self.options for option in SIDE_LISTS):
            return {}
        whole = "validation" not in self._settings.splits
        train = {"train": _OFFICIAL_TRAIN_VALIDATION} if whole else {}
        return {**train, "test": _OFFICIAL_TEST}


def _splits_line(lists: Lists, assignment: Assignment) -> str:
    cut = assignment.cut
    # Rounded: 0.10000000000000001 is as good as a fraction of 17 digits would be unreadable.
    shares = " and ".join(f"{float(share):g} {split}" for split, share in cut.shares)
    if not lists.sides or not assignment.sides:
        return f"splits: patients at random, {shares}, seed {cut.seed}"
    train_validation, test = (printable(side.place) for side in lists.sides)
    extra = assignment.sides.unlabelled
    note = f"; {counted(extra, 'name')} in them without labels, left out" if extra else ""
    return (
        f"splits: official, {train_validation} (of its patients {shares}, seed {cut.seed}) and "
        f"{test}{note}"
    )


def _labels_line(lists: Lists, assignment: Assignment) -> str:
    table = assignment.table
    older = f"; {lists.passed_over} is there too and not read" if lists.passed_over else ""
    return (
        f"labels: {printable(table.place)}, {counted(len(table.rows), 'image')} of "
        f"{counted(len(set(table.patients)), 'patient')}{older}"
    )


def _boxes_line(lists: Lists) -> str:
    if not lists.boxes:
        return "boxes: no list"
    boxes = load_boxes(lists.boxes)
    number = sum(map(len, boxes.values()))
    marked = f"{number:,} on {counted(len(boxes), 'image')}"
    return f"boxes: {printable(lists.boxes.place)}, {marked}"


def _require_unique(images: Sequence[StoredImage], unit: ScanUnit) -> None:
    for earlier, later in pairwise(images):
        if earlier.name == later.name:
            raise SourceError(
                f"{printable(unit.container)} holds {printable(later.name)} twice, as "
                f"{printable(earlier.path)} and {printable(later.path)}; expected each image once; "
                "copy or download it again"
            )


def _unassigned(names: Sequence[str], lists: Lists) -> SourceError:
    places = " nor ".join(printable(side.place) for side in lists.sides or ())
    verb = "is" if len(names) == 1 else "are"
    return SourceError(
        f"{counted(len(names), 'image')} of {printable(lists.labels.place)} {verb} in neither "
        f"{places}: {some_of(names)}; expected each image in one of them; correct the lists or "
        f"use --split {BY_PATIENT}"
    )


def _scanned(
    unit: ScanUnit,
    listing: Listing,
    rows: Mapping[str, Sequence[Row]],
    unlisted: Sequence[Unmatched],
    counts: Counter[str],
) -> Scanned:
    stray = unit.stray if isinstance(unit, ImageUnit) else ()
    ignored = sorted(listing.ignored, key=lambda entry: entry.name)
    happened = {what: count for what, count in counts.items() if count}
    return Scanned(rows, (*stray, *ignored), unlisted, counts=happened, restarts=listing.restarts)
