"""What is selected of finished data sets: taken, told, and written down as where it comes from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from dataprep.datasets.splits import parse_split
from dataprep.errors import DatasetError, UsageError
from dataprep.formats import DatasetInfo
from dataprep.jobs.request import ConvertRequest, usual_shuffle
from dataprep.jobs.running.job import is_split
from dataprep.recipe import changed_recipe
from dataprep.sealed.set import SealedSet
from dataprep.system.messages import counted, printable, some_of
from dataprep.system.state_files import digest_of, file_sha256
from dataprep.tables.chosen import Selection
from dataprep_schemas.manifest import (
    Ancestor,
    Excluded,
    ImageRecipe,
    Input,
    Selected,
    Shuffle,
    Unmatched,
)
from dataprep_schemas.tables import patient_column

if TYPE_CHECKING:
    from dataprep.tables.database import Database


class Taken(NamedTuple):
    """What a selection changes of the first data set's identity; a field is called like its own."""

    seed: int
    shuffle: Mapping[str, Shuffle]
    classes_sha256: str
    unmatched: Unmatched
    excluded: Excluded | None
    input: Mapping[str, Input]


def take(
    request: ConvertRequest,
    sources: Sequence[SealedSet],
    info: DatasetInfo,
    database: Database,
    report: Callable[[str], None],
) -> Taken | None:
    """Make the tables of what is taken, and say how much that is.

    Returns:
        What the selection changes; None if all is taken as it is.

    Raises:
        UsageError: what is to be taken cannot be told.
        DatasetError: nothing would be taken, or two images of one name.
    """
    from dataprep.tables import selection as tables
    from dataprep.tables.exclude import describe_excluded

    manifest, chosen = sources[0].manifest, request.selection
    seed = manifest.seed if request.seed is None else request.seed
    _make_tables(chosen or Selection(), sources, info, database, seed, report)
    if chosen is None:
        return None
    found = tables.summaries(database)
    if not found:
        raise DatasetError("no image is taken; check --where, --splits, --exclude and --sample")
    taken = sum(split.images for split in found.values())
    there = sum(source.records + source.manifest.totals.rejected for source in sources)
    report(f"{counted(taken, 'image')} of {there:,} taken")
    left_out = manifest.excluded
    if chosen.exclude is not None:
        more = tables.left_out(database)
        report(describe_excluded(more))
        left_out = _both(left_out, more)
    if chosen.relabel is not None:
        report(_relabelled(database))
    unmatched = [source.manifest.unmatched for source in sources]
    return Taken(
        seed=seed,
        shuffle={
            name: request.shuffle or manifest.shuffle.get(name) or usual_shuffle(name)
            for name in found
        },
        classes_sha256=digest_of(info.classes),
        unmatched=replace(
            manifest.unmatched,
            missing=sum(each.missing for each in unmatched),
            unlisted=sum(each.unlisted for each in unmatched),
        ),
        excluded=left_out,
        input=found,
    )


def _make_tables(
    chosen: Selection,
    sources: Sequence[SealedSet],
    info: DatasetInfo,
    database: Database,
    seed: int,
    report: Callable[[str], None],
) -> None:
    """Make the tables ``chosen``, ``classes`` and ``label_sets``."""
    from dataprep.tables import selection as tables
    from dataprep.tables.label_sets import number_label_sets

    names = [name for name, _ in info.classes]
    several = len(sources) > 1
    tables.take(database, chosen, names, split_of=_split_of, several=several)
    splits = tables.splits(database)
    for name in splits:
        if not is_split(name):
            cell = "an empty cell" if name is None else printable(name)
            raise UsageError(
                f"--split_by {chosen.split_by or 'split'}: {cell!r} is no name of a split; leave "
                "those images out with --where, or choose another column"
            )
    column = patient_column(info.fields) if several or chosen.split_by else None
    if column and (torn := tables.in_several_splits(database, column)):
        patients = some_of([str(patient) for (patient,) in torn])
        report(f"{counted(len(torn), 'patient')} in more than one split ({column}): {patients}")
    number_label_sets(database, splits, names, multilabel=info.multilabel)
    tables.sample(database, chosen, splits, seed)


def _split_of(text: str) -> str:
    try:
        return parse_split(text)
    except ValueError as error:
        raise UsageError(f"--split_by {error}") from error


def _relabelled(database: Database) -> str:
    from dataprep.tables.selection import count_relabelled

    number, gone = count_relabelled(database)
    more = f"; {counted(gone, 'image')} there left out (--exclude)" if gone else ""
    return f"{counted(number, 'image')} with other labels (--relabel){more}"


def _both(before: Excluded | None, more: Excluded) -> Excluded:
    """Digests are exclusive ors, whatever was hashed first."""
    if before is None:
        return Excluded(more.images, more.digest)
    digest = f"{int(before.digest, 16) ^ int(more.digest, 16):032x}"
    return Excluded(before.images + more.images, digest)


def lineage(
    request: ConvertRequest, sources: Sequence[SealedSet], image: ImageRecipe
) -> tuple[Ancestor, ...]:
    """The sources, each followed by its own."""
    found: list[Ancestor] = []
    chosen = request.selection
    for number, source in enumerate(sources):
        manifest, selected = source.manifest, None
        if chosen is not None:
            share = chosen.sample
            selected = Selected(
                splits=chosen.splits or (),
                where=chosen.where or "",
                sample="" if share is None else f"{share.numerator}/{share.denominator}",
                stratified=chosen.stratify,
                excluded=None if chosen.exclude is None else file_sha256(chosen.exclude),
                relabelled=None if chosen.relabel is None else file_sha256(chosen.relabel),
                split_by=chosen.split_by or "",
                name=chosen.names[number] if chosen.names else "",
            )
        before = manifest.image
        anew = None if image in (before, changed_recipe(before, stats="off")) else before
        found += [
            Ancestor(manifest.sha256, manifest.sink, manifest.versions, anew, selected),
            *manifest.lineage,
        ]
    return tuple(found)
