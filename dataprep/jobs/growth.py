"""What a data set that is to grow by ``--append`` demands of the images that there are now."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from dataprep.errors import DatasetError, SourceError
from dataprep.jobs.request import Request
from dataprep.sealed.set import SealedSet
from dataprep.system.messages import counted, printable, some_of

if TYPE_CHECKING:
    from dataprep.tables.images import Images
    from dataprep_schemas.state import ScanSummary

Classes = Sequence[tuple[str, str]]
"""Identifier and name of each class, in the order of their numbers."""


def images_before(grown: SealedSet | None) -> tuple[int, int]:
    """How many images a data set was made from, and how many of them were rejected."""
    if grown is None:
        return 0, 0
    images = sum(split.images for split in grown.manifest.input.values())
    return images, grown.manifest.totals.rejected


def check_splits_same(grown: SealedSet, splits: Sequence[str]) -> None:
    """A data set grows in the splits that it has.

    Raises:
        DatasetError: the raw data, or what was asked for of it, has others.
    """
    known = grown.manifest.splits
    if {*splits} != {*known}:
        raise DatasetError(
            f"{grown.out} has the splits {some_of(known)}, now there are {some_of(splits)}; "
            "--append adds to every split that there is, and to no other: use the same raw "
            "data and --splits, or --overwrite to start it anew"
        )


def known_classes(grown: SealedSet, found: Classes, *, listed: bool) -> Classes:
    """The classes in an order that moves no label: those it has, then those that are new.

    Args:
        listed: whether a list says which classes there are; then it must say the same.

    Raises:
        DatasetError: it does not.
    """
    before = grown.manifest.classes
    if not listed:
        known = {identifier for identifier, _ in before}
        return [*before, *(entry for entry in found if entry[0] not in known)]
    if tuple(found) != before:
        raise DatasetError(
            f"{grown.out} was made with another list of classes; --append needs the same one; "
            "use that, or --overwrite to start it anew"
        )
    return found


def check_kept(grown: SealedSet, images: Images, *, same_sizes: bool) -> None:
    """What it was made from must still be there, as it was.

    Args:
        same_sizes: whether images are stored in the size in which they are found.

    Raises:
        SourceError: names the first image that is not.
    """
    from dataprep.tables.comparison import changed, included, vanished

    again = "; bring them back, or use --overwrite to make the data set of what there is now"
    number, split, key, now = vanished(images)
    if number:
        where = f"is in the split {now} now" if now else "is not in the raw data any more"
        where += ", or --exclude names it" if images.exclude and not now else ""
        what = f"{split}: {printable(key)} {where}"
        raise SourceError(f"{what}{_others(number)}; --append only adds{again}")
    number, key = included(images)
    if number:
        raise SourceError(
            f"{printable(key)} was left out by --exclude before and is not now{_others(number)}"
            "; give a list that has it, or use --overwrite"
        )
    if images.summaries_of("kept") == grown.manifest.input:
        return
    number, split, key = changed(images, sizes=same_sizes)
    what = f"{split}: {printable(key)} has" if number else f"images of {grown.out} have"
    raise SourceError(
        f"{what} another size, or other labels or boxes, than when it was made"
        f"{_others(number)}; --append only adds; bring back what they were, or use "
        "--overwrite to make the data set of what there is now"
    )


def sized_like(
    grown: SealedSet, request: Request, summary: ScanSummary, report: Callable[[str], None]
) -> Request:
    """The request with as many shards as make none larger than the largest there is.

    Raises:
        DatasetError: there are new classes, and all shards that there are would have to know them.
    """
    number = len(grown.manifest.classes)
    if new := [name for name, _ in summary.classes[number:]]:
        sink = request.load_sink()
        if sink.stores_classes(grown.info):
            why = f"{some_of(new)} would be new, and each shard of {sink.name} has all classes"
            instead = "use --overwrite; or let a webdataset grow, and make this of it"
            raise cannot_grow(grown.out, why, instead)
        report(
            f"{counted(len(new), 'new class', 'new classes')}, numbered from {number} on so "
            f"that no label moves: {some_of(new)}"
        )
    splits = grown.manifest.splits
    counts = {
        name: -(-new.images // splits[name].records_per_shard[1])
        for name, new in summary.input.items()
    }
    return replace(request, num_shards=counts)


def cannot_grow(out: Path, why: str, instead: str) -> DatasetError:
    """The error, with what to do instead."""
    return DatasetError(f"{out} cannot grow by --append: {why}; {instead} (`dataprep convert`)")


def _others(number: int) -> str:
    return f", and {counted(number - 1, 'other image')}" if number > 1 else ""
