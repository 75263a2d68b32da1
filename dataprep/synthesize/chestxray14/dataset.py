"""A made-up ChestX-ray14: official layout, names and lists, radiograph-like pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TypeAlias

from dataprep.errors import UsageError
from dataprep.synthesize.chestxray14.encoding import encode_radiograph
from dataprep.synthesize.chestxray14.layouts import (
    ChestXray14Layout,
    final_name,
    is_chestxray14_name,
    write_archive,
)
from dataprep.synthesize.chestxray14.plan import (
    ChestXray14Plan,
    PlannedRadiograph,
    RadiographSpecial,
)
from dataprep.synthesize.chestxray14.radiograph import FINDINGS, radiograph
from dataprep.synthesize.defects import spoil
from dataprep.synthesize.parallel import ordered_map
from dataprep.synthesize.staging import staged
from dataprep.synthesize.tar_members import NamedFile
from dataprep.system.cores import usable_cores

DEFAULT_SIZE = 256
_SIZES = (8, 4096)
_Painted: TypeAlias = tuple[PlannedRadiograph, bytes]


@dataclass(frozen=True)
class SpecialRadiograph:
    """An image that a reader has to treat apart.

    Args:
        name: its base name.
        special: what is odd about it.
    """

    name: str
    special: RadiographSpecial


@dataclass(frozen=True)
class ChestXray14Summary:
    """What was written.

    Args:
        directory: where.
        layout: how.
        documents: names of the CSVs and lists.
        archives: how many.
        patients: how many.
        images: image files, those with defects included.
        image_bytes: size of all image files together.
        special_images: those that are encoded oddly, truncated, missing or not listed.
    """

    directory: Path
    layout: ChestXray14Layout
    documents: tuple[str, ...]
    archives: int
    patients: int
    images: int
    image_bytes: int
    special_images: tuple[SpecialRadiograph, ...]


def synthesize_chestxray14(
    directory: Path,
    plan: ChestXray14Plan,
    *,
    layout: ChestXray14Layout = "tar.gz",
    size: int = DEFAULT_SIZE,
    overwrite: bool = False,
    threads: int | None = None,
    progress: Callable[[int], object] | None = None,
) -> ChestXray14Summary:
    """Write a made-up ChestX-ray14; equal arguments give equal bytes.

    Args:
        directory: where to; made if missing.
        plan: what, see `plan_chestxray14`.
        layout: ``tar.gz`` as published, ``tar``, ``zip`` as on Kaggle, ``folders`` as
            unpacked there, ``flat`` as one folder.
        size: pixels a side; the original has 1024.
        overwrite: replace a set that `dataprep synthesize` wrote earlier.
        threads: how many draw; by default as many as there are cores to use.
        progress: called with the number of images finished since the last call.

    Returns:
        Counts, sizes and the special images.

    Raises:
        UsageError: the size is impossible.
        DatasetError: the directory holds something else, or cannot be written.
    """
    if not _SIZES[0] <= size <= _SIZES[1]:
        raise UsageError(f"size is {size}; it must be between {_SIZES[0]} and {_SIZES[1]}")
    count = threads or usable_cores()
    tally = _Tally(progress)
    # The images come last: without them nothing takes the directory for a complete one.
    archives = range(1, len(plan.archive_sizes) + 1)
    names = [*plan.documents, *dict.fromkeys(final_name(layout, number) for number in archives)]
    with (
        staged(directory, names, is_chestxray14_name, overwrite=overwrite) as staging,
        ThreadPoolExecutor(count, thread_name_prefix="synthesize") as executor,
    ):
        for name, content in plan.documents.items():
            (staging / name).write_bytes(content)
        painted = ordered_map(executor, partial(_paint, size), plan.radiographs(), 4 * count)
        for number, group in _by_archive(painted, archives):
            write_archive(staging, layout, number, map(tally.count, group))
    if plan.missing is not None:
        tally.special_images.append(SpecialRadiograph(plan.missing, "missing"))
    return ChestXray14Summary(
        directory=directory,
        layout=layout,
        documents=tuple(plan.documents),
        archives=len(archives),
        patients=plan.patients,
        images=tally.images,
        image_bytes=tally.image_bytes,
        special_images=tuple(tally.special_images),
    )


def _by_archive(
    painted: Iterable[_Painted], archives: Iterable[int]
) -> Iterator[tuple[int, Iterable[_Painted]]]:
    """Group the images; the archive whose only image is missing is there and empty."""
    groups = groupby(painted, key=lambda item: item[0].archive)
    group = next(groups, None)
    for number in archives:
        if group is not None and group[0] == number:
            yield group
            group = next(groups, None)
        else:
            yield number, ()


def _paint(size: int, image: PlannedRadiograph) -> _Painted:
    """Make one image; runs in several threads."""
    findings = [token for token in image.findings.split("|") if token in FINDINGS]
    encoded = encode_radiograph(radiograph(image.seed, size, findings), image.kind)
    if image.special == "truncated":
        encoded = spoil(encoded, "truncated", image.seed)
    return image, encoded


class _Tally:
    """Takes note of the images on their way to the disk."""

    def __init__(self, progress: Callable[[int], object] | None) -> None:
        self._progress = progress
        self.images = 0
        self.image_bytes = 0
        self.special_images: list[SpecialRadiograph] = []

    def count(self, painted: _Painted) -> NamedFile:
        """Pass an image on as a named file."""
        image, encoded = painted
        self.images += 1
        self.image_bytes += len(encoded)
        if image.special is not None:
            self.special_images.append(SpecialRadiograph(image.name, image.special))
        if self._progress is not None:
            self._progress(1)
        return image.name, encoded
