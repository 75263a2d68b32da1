"""Which files a made-up ChestX-ray14 consists of: names, kinds and archives, no pixels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Literal

from dataprep.errors import UsageError
from dataprep.synthesize.chestxray14.boxes import made_up_boxes
from dataprep.synthesize.chestxray14.encoding import RadiographKind
from dataprep.synthesize.chestxray14.labels import (
    LabelTable,
    patient_of,
    picture_seed,
    read_document,
    read_labels,
)
from dataprep.synthesize.chestxray14.lists import made_up_lists
from dataprep.synthesize.chestxray14.patients import CsvVersion, made_up_labels

RadiographSpecial = Literal["rgba", "palette", "sixteen_bit", "truncated", "missing", "unlisted"]

TRAIN_VAL_LIST = "train_val_list.txt"
TEST_LIST = "test_list.txt"
BOX_LIST = "BBox_List_2017.csv"

# Images in images_001 to images_012, as published.
_PUBLISHED = (4_999, *[10_000] * 10, 7_121)
DEFAULT_PATIENTS = 60
DEFAULT_ARCHIVES = len(_PUBLISHED)
_MOST_ARCHIVES = 999

# Positions in the order of names. They start at 1 so that the first image is an ordinary
# one, and are low so that the smallest sets have them.
_ODD: dict[int, RadiographKind] = {1: "rgba", 2: "palette", 3: "sixteen_bit", 4: "rgba"}
_TRUNCATED, _MISSING = 5, 6


@dataclass(frozen=True)
class PlannedRadiograph:
    """One image file to be made.

    Args:
        name: its base name.
        findings: what it shows, ``|`` between findings.
        archive: the number of its archive, from 1.
        seed: of its picture.
        kind: how it is encoded.
        special: what is odd about it, if anything is.
    """

    name: str
    findings: str
    archive: int
    seed: int
    kind: RadiographKind = "grey"
    special: RadiographSpecial | None = None


@dataclass(frozen=True)
class ChestXray14Plan:
    """The contents of a set.

    Args:
        table: the label CSV.
        documents: the text files by name: the CSV, the lists, the boxes.
        archives: into how many to cut; fewer if there are fewer images.
        defects: whether one image is truncated, one is missing and one is not listed.
        seed: of the pictures.

    Raises:
        UsageError: there are too few images for the defects, or the number of archives
            is impossible.
    """

    table: LabelTable
    documents: Mapping[str, bytes]
    archives: int = DEFAULT_ARCHIVES
    defects: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.archives <= _MOST_ARCHIVES:
            raise UsageError(
                f"archives is {self.archives}; it must be between 1 and {_MOST_ARCHIVES}"
            )
        if self.defects and len(self.table.images) <= _MISSING:
            raise UsageError(
                f"there are {len(self.table.images)} images and --defects needs "
                f"{_MISSING + 1}; take more patients"
            )

    @property
    def total(self) -> int:
        """Number of image files: with defects one listed is missing, and one is unlisted."""
        return len(self.table.images)

    @property
    def archive_sizes(self) -> tuple[int, ...]:
        """Number of listed images in each archive."""
        return archive_sizes(len(self.table.images), self.archives)

    @property
    def patients(self) -> int:
        """Number of patients."""
        return len({patient_of(name) for name, _ in self.table.images})

    @property
    def missing(self) -> str | None:
        """The image that is listed and not there."""
        return self.table.images[_MISSING][0] if self.defects else None

    def radiographs(self) -> Iterator[PlannedRadiograph]:
        """The image files, by archive and name."""
        ends = list(accumulate(self.archive_sizes))
        archive = 1
        extra = self._unlisted() if self.defects else None
        for position, (name, findings) in enumerate(self.table.images):
            archive += position == ends[archive - 1]
            if extra is not None and extra < name:
                yield self._image(extra, "No Finding", archive, "grey", "unlisted")
                extra = None
            if self.defects and position == _MISSING:
                continue
            kind = _ODD.get(position, "grey")
            special: RadiographSpecial | None = None if kind == "grey" else kind
            if self.defects and position == _TRUNCATED:
                special = "truncated"
            yield self._image(name, findings, archive, kind, special)
        if extra is not None:
            yield self._image(extra, "No Finding", archive, "grey", "unlisted")

    def _image(
        self,
        name: str,
        findings: str,
        archive: int,
        kind: RadiographKind,
        special: RadiographSpecial | None,
    ) -> PlannedRadiograph:
        seed = picture_seed(self.seed, name)
        return PlannedRadiograph(name, findings, archive, seed, kind, special)

    def _unlisted(self) -> str:
        """A name that the last patient could have and has not."""
        listed = {name for name, _ in self.table.images}
        patient = patient_of(self.table.images[-1][0])
        candidates = (f"{patient}_{number:03d}.png" for number in range(999, -1, -1))
        return next(name for name in candidates if name not in listed)


def archive_sizes(images: int, archives: int) -> tuple[int, ...]:
    """Cut images into archives in the proportions of the published ones.

    Args:
        images: how many.
        archives: into how many; fewer if there are fewer images.

    Returns:
        The number of images in each, at least 1; for 112,120 in 12 the published numbers.
    """
    archives = min(archives, images)
    if archives <= 1:
        return (images,)
    weights = (_PUBLISHED[0], *[10_000] * (archives - 2), _PUBLISHED[-1])
    whole, end, sizes = sum(weights), 0, []
    for number, weight in enumerate(accumulate(weights), start=1):
        share = (2 * images * weight + whole) // (2 * whole)  # rounded, without floats
        begin, end = end, max(end + 1, min(share, images - (archives - number)))
        sizes.append(end - begin)
    return tuple(sizes)


def plan_chestxray14(
    *,
    patients: int | None = None,
    csv_version: CsvVersion | None = None,
    csv: Path | None = None,
    train_val_list: Path | None = None,
    test_list: Path | None = None,
    bbox_csv: Path | None = None,
    archives: int = DEFAULT_ARCHIVES,
    defects: bool = False,
    seed: int = 0,
) -> ChestXray14Plan:
    """Decide what a set consists of.

    Args:
        patients: how many to make up; 60 by default.
        csv_version: the form of the made-up label CSV, ``2020`` by default.
        csv: a label CSV to follow instead, plain or ``.gz``.
        train_val_list: its official list, to be copied; both or none. Without them
            the images are cut by patient.
        test_list: the other official list.
        bbox_csv: its box list, to be copied. Without it there is none, since boxes made up
            for real images would be wrong; made-up patients have made-up boxes.
        archives: into how many to cut.
        defects: whether to truncate, leave out and add an image.
        seed: decides on everything that is made up.

    Returns:
        The plan.

    Raises:
        UsageError: options contradict each other, or a number is impossible.
        SourceError: a file to be copied cannot be read, or is not what it should be.
    """
    if csv is None:
        if train_val_list or test_list or bbox_csv:
            raise UsageError(
                "--train_val_list, --test_list and --bbox_csv belong to the images of a --csv; "
                "give that, too"
            )
        table = made_up_labels(
            DEFAULT_PATIENTS if patients is None else patients, csv_version or "2020", seed
        )
        boxes: bytes | None = made_up_boxes(table, seed)
    else:
        if patients is not None or csv_version is not None:
            raise UsageError(
                "--patients and --csv_version are for made-up patients; leave them out with --csv"
            )
        table = read_labels(csv)
        boxes = None if bbox_csv is None else read_document(bbox_csv)
    if train_val_list and test_list:
        lists = read_document(train_val_list), read_document(test_list)
    elif train_val_list or test_list:
        raise UsageError("give both --train_val_list and --test_list, or none of them")
    else:
        lists = made_up_lists(table, seed)
    documents = {table.file_name: table.content, TRAIN_VAL_LIST: lists[0], TEST_LIST: lists[1]}
    if boxes is not None:
        documents[BOX_LIST] = boxes
    return ChestXray14Plan(table, documents, archives, defects, seed)
