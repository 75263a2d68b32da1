"""What is selected of finished data sets: taken, told, and written down as where it comes from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace as with_options
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
    Decided,
    Excluded,
    ImageRecipe,
    Input,
    Selected,
    Shuffle,
    Unmatched,
)
from dataprep_schemas.state import ExcludedNames
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


class Changes(NamedTuple):
    """How many images decisions changed."""

    left_out: int
    relabelled: int
    moved: int


def take(
    request: ConvertRequest,
    sources: Sequence[SealedSet],
    info: DatasetInfo,
    database: Database,
    report: Callable[[str], None],
) -> tuple[Taken | None, DatasetInfo, Changes]:
    """Make the tables of what is taken, and say how much that is.

    Returns:
        What the selection changes, None if all is taken as it is; what is true of every example,
        once classes that decisions emptied are dropped; how many images those changed.

    Raises:
        UsageError: what is to be taken cannot be told.
        DatasetError: nothing would be taken, or two images of one name.
    """
    from dataprep.tables import selection as tables
    from dataprep.tables.exclude import describe_excluded

    manifest, chosen = sources[0].manifest, request.selection
    seed = manifest.seed if request.seed is None else request.seed
    info = _make_tables(chosen or Selection(), request, sources, info, database, seed, report)
    if chosen is None:
        return None, info, Changes(0, 0, 0)
    found = tables.summaries(database)
    if not found:
        raise DatasetError("no image is taken; check --where, --splits, --exclude and --sample")
    taken = sum(split.images for split in found.values())
    there = sum(source.records + source.manifest.totals.rejected for source in sources)
    report(f"{counted(taken, 'image')} of {there:,} taken")
    left_out, more = manifest.excluded, ExcludedNames(0, "0" * 32, 0)
    if chosen.exclude is not None or chosen.decisions is not None:
        more = tables.left_out(database)
        left_out = _both(left_out, more)
    changes = Changes(more.images, 0, 0)
    if chosen.relabel is not None or chosen.decisions is not None:
        changes = Changes(more.images, *tables.count_changed(database))
    if chosen.decisions is not None:
        report(_decided(database, changes, more, taken))
    else:
        if chosen.exclude is not None:
            report(describe_excluded(more))
        if chosen.relabel is not None:
            report(_relabelled(changes.relabelled, tables.count_gone(database)))
    unmatched = [source.manifest.unmatched for source in sources]
    taken_of = Taken(
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
    return taken_of, info, changes


def _make_tables(
    chosen: Selection,
    request: ConvertRequest,
    sources: Sequence[SealedSet],
    info: DatasetInfo,
    database: Database,
    seed: int,
    report: Callable[[str], None],
) -> DatasetInfo:
    """Make the tables ``chosen``, ``classes`` and ``label_sets``; drop classes that are empty."""
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
    if chosen.decisions is not None and request.classes is None:
        info = _without_emptied(info, tables.emptied(database, chosen), chosen.renamed, report)
        names = [name for name, _ in info.classes]
    moves = several or chosen.split_by or any(it.decision == "split" for it in chosen.decided)
    column = patient_column(info.fields) if moves else None
    if column and (torn := tables.in_several_splits(database, column)):
        patients = some_of([str(patient) for (patient,) in torn])
        report(f"{counted(len(torn), 'patient')} in more than one split ({column}): {patients}")
    number_label_sets(database, splits, names, multilabel=info.multilabel)
    tables.sample(database, chosen, splits, seed)
    return info


def _without_emptied(
    info: DatasetInfo,
    emptied: set[str],
    renamed: Mapping[str, str],
    report: Callable[[str], None],
) -> DatasetInfo:
    dropped = [name for name, _ in info.classes if name in emptied]
    said = [f"{old} is {new or 'no class'} now" for old, new in renamed.items()]
    said += [f"{name} is dropped, since no image is of it" for name in dropped]
    if said:
        report(f"classes: {some_of(said)}")
    classes = tuple(each for each in info.classes if each[0] not in dropped)
    return with_options(info, classes=classes)


def read_decided(chosen: Selection, sources: Sequence[SealedSet]) -> Selection:
    """The selection with what is in its files of decisions.

    Raises:
        UsageError: a file cannot be used, people contradict each other, or a split has no name.
    """
    if chosen.decisions is None:
        return chosen
    from dataprep.tables.decisions import check_agreed, read_decisions

    found = read_decisions(chosen.decisions)
    check_agreed(found, "--decisions")
    known = {split for source in sources for split in source.splits}
    decided = []
    for one in found:
        value = one.value
        if one.decision == "split" and value not in known:
            try:
                value = parse_split(value)
            except ValueError as error:
                raise UsageError(f"--decisions: {printable(one.key)}: split {error}") from error
        decided.append(with_options(one, value=value))
    return with_options(chosen, decided=tuple(decided))


def _split_of(text: str) -> str:
    try:
        return parse_split(text)
    except ValueError as error:
        raise UsageError(f"--split_by {error}") from error


def _decided(database: Database, changes: Changes, names: ExcludedNames, taken: int) -> str:
    from dataprep.tables.exclude import describe_unknown
    from dataprep.tables.selection import count_found

    found = count_found(database)
    parts = [f"{changes.left_out:,} left out", f"{changes.relabelled:,} relabelled"]
    parts += [f"{changes.moved:,} moved"] * (changes.moved > 0)
    if rest := found - changes.left_out - taken:
        parts.append(f"{rest:,} not in the sample")
    parts.append(f"{taken:,} written")
    return f"{counted(found, 'image')}: {', '.join(parts)}{describe_unknown(names)}"


def _relabelled(number: int, gone: int) -> str:
    more = f"; {counted(gone, 'image')} there left out (--exclude)" if gone else ""
    return f"{counted(number, 'image')} with other labels (--relabel){more}"


def _both(before: Excluded | None, more: Excluded) -> Excluded:
    """Digests are exclusive ors, whatever was hashed first."""
    if before is None:
        return Excluded(more.images, more.digest)
    digest = f"{int(before.digest, 16) ^ int(more.digest, 16):032x}"
    return Excluded(before.images + more.images, digest)


def lineage(
    request: ConvertRequest, sources: Sequence[SealedSet], image: ImageRecipe, changes: Changes
) -> tuple[Ancestor, ...]:
    """The sources, each followed by its own."""
    found: list[Ancestor] = []
    chosen = request.selection
    for number, source in enumerate(sources):
        manifest, selected = source.manifest, None
        if chosen is not None:
            share, decided = chosen.sample, None
            if chosen.decisions is not None:
                decided = Decided(
                    tuple(map(file_sha256, chosen.decisions)),
                    *changes,
                    chosen.renamed,
                    manifest.input,
                )
            selected = Selected(
                splits=chosen.splits or (),
                where=chosen.where or "",
                sample="" if share is None else f"{share.numerator}/{share.denominator}",
                stratified=chosen.stratify,
                excluded=None if chosen.exclude is None else file_sha256(chosen.exclude),
                relabelled=None if chosen.relabel is None else file_sha256(chosen.relabel),
                decided=decided,
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
