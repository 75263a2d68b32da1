"""What all parts of the index say together: checked, summed up, and told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from dataprep.datasets import Dataset, Found, wanted_splits
from dataprep.datasets.splits import in_usual_order
from dataprep.errors import DatasetError, RejectedError, SourceError, UsageError
from dataprep.jobs.index_parts import IndexParts
from dataprep.jobs.request import MaxBad, Request, check_splits
from dataprep.jobs.workspace import Workspace
from dataprep.sealed.set import SealedSet
from dataprep.system.messages import counted, printable, some_of
from dataprep.system.state_files import digest_of, file_sha256, read_state, write_state
from dataprep_schemas.manifest import SplitName, Unmatched
from dataprep_schemas.state import ExcludedNames, ScanSummary

if TYPE_CHECKING:
    from dataprep.tables.images import Images

Classes = Sequence[tuple[str, str]]
"""Identifier and name of each class, in the order of their numbers."""

_NOT_ONE: Final = "no image has, or several have"
_RULES: Final = 3  # raise it whenever the same index would be summarized otherwise


def open_images(
    parts: IndexParts, dataset: Dataset, found: Found, request: Request, grown: SealedSet | None
) -> Images:
    """The images of the index; nothing is read until something is asked.

    Args:
        grown: the data set that is to get those that it does not have; None: there is none.
    """
    from dataprep.tables.images import Images

    workspace = Workspace(request.out)
    names = parts.class_names() if found.classes is None else set()
    return Images(
        parts.tables(),
        workspace.private,
        parts.statuses(),
        [name for name, _ in found.own_columns],
        request.splits,
        request.exclude,
        None if grown is None else Workspace(grown.out).records,
        request.folds,
        found.cut,
        workspace.records if grown is None else None,
        dataset.name_classes(found, names).identifiers if names else {},
    )


def summarize(
    request: Request,
    dataset: Dataset,
    found: Found,
    parts: IndexParts,
    images: Images,
    grown: SealedSet | None,
) -> ScanSummary:
    """Check the images and put together what is known of them; at once if nothing changed.

    Args:
        grown: what is added to: the input is what that does not have.

    Raises:
        DatasetError: the data set cannot grow by that.
        UsageError: a split was asked for that is not there.
        SourceError: there are no images, or no labels; a name or a group is where it must not be.
    """
    workspace = Workspace(request.out)
    path = workspace.order / "summary.json"
    known: Classes | None = found.classes
    made_of = [
        *(_RULES, request.splits, request.limit, request.seed, found.splits, known),
        None if request.exclude is None else _sha256(request.exclude),
        [[unit.name, part.table, part.fingerprint] for unit, part in parts.units.items()],
        "" if grown is None else grown.manifest.sha256,
        "" if found.cut is None else found.cut.digest,
    ]
    key = digest_of(made_of)
    kept = read_state(path, ScanSummary)
    if kept is not None and kept.key == key:
        return kept
    unmatched = images.unmatched()
    if unmatched.first:
        images.write_unmatched(workspace.unmatched)
    else:
        workspace.unmatched.unlink(missing_ok=True)  # of an earlier run
    from dataprep.tables.rules import check_groups, check_kept, check_keys, check_splits_known

    there = images.splits()
    if not there:
        others = "".join(f"; {what}, such as {names}" for what, names in _unmatched(unmatched))
        raise SourceError(
            f"no images found in {printable(str(request.raw))}{others}; check --raw, and "
            "what says which images there are"
        )
    splits = found.splits or wanted_splits(in_usual_order(there), request.splits)
    check_splits(request.num_shards, splits)
    for split in splits:
        if not is_split(split):
            raise SourceError(
                f"{printable(split)!r} is no name of a split, since files are named after it; "
                "expected one without a slash that begins with neither a dot nor a hyphen"
            )
        if split not in there:
            raise SourceError(
                f"{split}: no images found; leave it out with --splits; or, if it was cut by a "
                "share, take a larger one or another --split_seed"
            )
    listed = known is not None
    said = ""
    if known is None:
        named = dataset.name_classes(found, parts.class_names() or images.class_names())
        known, said = named.classes, named.reason
    if grown is not None:
        known = _classes_of_all(grown, splits, known, listed=listed)
        said = ""  # it was, when that was made
    check_splits_known(images.database)
    check_keys(images.database)
    check_groups(images.database, dataset.group)
    if grown is not None:
        check_kept(images.database, sizes=request.recipe.keeps_bytes)
        if images.summaries("kept") != grown.manifest.input:
            # The table does not have the sizes of rejected ones: any of them may be the cause.
            rejected = images.rejected_before()
            perhaps = f", perhaps of what was rejected ({some_of(rejected)})" if rejected else ""
            raise SourceError(
                f"images of {grown.out} have another size, or other labels, boxes, captions or "
                f"attributes than when it was made{perhaps}; --append only adds: bring back what "
                "was there, or use --overwrite to make the data set of what there is now"
            )
    images.choose(
        splits,
        [name for name, _ in known],
        multilabel=found.multilabel,
        seed=request.seed,
        limit=request.limit,
    )
    if not listed and grown is None:
        names = [name for name, _ in known]
        dataset.check_classes(found, names, images.classes_by_split(), images.folders())
    counts: Counter[str] = Counter()
    for part in parts.units.values():
        counts.update(part.counts)
    sums = images.summaries()
    summary = ScanSummary(
        key=key,
        splits=tuple(split for split in splits if split in sums),
        classes=tuple(known),
        input=sums,
        unmatched=unmatched,
        excluded=images.excluded(),
        assigned=images.assigned(),
        ignored=images.ignored(),
        counts=dict(counts),
        said=said,
        lacking={
            split: tuple(names)
            for split, names in images.lacking().items()
            if split not in found.official_counts  # which are what they are
        },
    )
    write_state(path, summary)
    return summary


def _classes_of_all(
    grown: SealedSet, splits: Sequence[str], found: Classes, *, listed: bool
) -> Classes:
    """The classes in an order that moves no label: those it has, then those that are new.

    Args:
        splits: those that there are now; a data set grows in the splits that it has.
        listed: whether a list says which classes there are; then it must say the same.
    """
    before, known = grown.manifest.classes, grown.manifest.splits
    if {*splits} != {*known}:
        raise DatasetError(
            f"{grown.out} has the splits {some_of(known)}, now there are {some_of(splits)}; "
            "--append adds to every split that there is, and to no other: use the same raw "
            "data and --splits, or --overwrite to start it anew"
        )
    new = [entry for entry in found if entry[0] not in dict(before)]
    if listed and tuple(found) != before:
        raise DatasetError(
            f"{grown.out} was made with another list of classes; --append needs the same one; "
            "use that, or --overwrite to start it anew"
        )
    if new and grown.sink.stores_classes(grown.info):
        raise cannot_grow(
            grown.out,
            f"{some_of([name for _, name in new])} would be new, and each shard of "
            f"{grown.sink.name} has all classes",
            "use --overwrite; or let a webdataset grow, and make this of it",
        )
    return [*before, *new]


def cannot_grow(out: Path, why: str, instead: str) -> DatasetError:
    """The error, with what to do instead."""
    return DatasetError(f"{out} cannot grow by --append: {why}; {instead} (`dataprep convert`)")


def is_split(name: str | None) -> bool:
    """Whether a split may be called so: files are named after it."""
    try:
        msgspec.convert(name, SplitName)
    except msgspec.ValidationError:
        return False
    return True


def _sha256(path: Path) -> str:
    try:
        return file_sha256(path)
    except OSError as error:
        raise UsageError(
            f"--exclude {path} cannot be read ({error.strerror}); check the path"
        ) from error


def check_unmatched(
    summary: ScanSummary, max_bad: MaxBad, names: Path, before: tuple[int, int] = (0, 0)
) -> None:
    """Refuse early, before hours of work, what could not be sealed.

    Args:
        max_bad: how many images may be missing or not listed, or names to exclude no image's.
        before: as `dataprep.jobs.seal.check_rejected` has it.

    Raises:
        RejectedError: more are than the user allows.
    """
    missing = summary.unmatched.missing
    images = before[0] + sum(split.images for split in summary.input.values())
    bad = before[1] + summary.bad
    if not max_bad.allows(bad, images + missing):
        what = [text for text, _ in _unmatched(summary.unmatched)]
        where = f"; {names} names all of them" if what else ""
        if summary.excluded is not None and (unknown := summary.excluded.unknown):
            what.append(f"{counted(unknown, 'name')} in --exclude that {_NOT_ONE}")
        if before[1]:
            what.append(f"{counted(before[1], 'image')} rejected before")
        raise RejectedError(
            f"{' and '.join(what)}, --max_bad allows {max_bad}; no shard was written{where}",
            rejected=bad,
        )


def report_summary(
    summary: ScanSummary, report: Callable[[str], None], *, stratified: bool
) -> None:
    """Tell the user what may be a surprise."""
    if summary.excluded is not None:
        report(describe_excluded(summary.excluded))
    if (old := summary.assigned) is not None:
        groups = f" and {old.groups_there:,} of its {counted(old.groups, 'group')}"
        report(
            f"--splits_from: {old.images_there:,} of its {counted(old.images, 'image')}"
            f"{groups if old.groups else ''} are here, and stay in their splits"
        )
    number, first = summary.ignored
    if number:
        report(f"{counted(number, 'file')} ignored, the first {first}")
    if summary.said:
        report(summary.said)
    for what, count in summary.counts.items():
        report(f"{what}: {count:,} in the raw data")
    for what, names in _unmatched(summary.unmatched):
        report(f"{what}: {names}")
    advice = "a larger one or another --split_seed may help"
    if stratified:
        advice = "these are too small for every split: a larger share may help"
    for split, classes in summary.lacking.items():
        report(
            f"{split} has no image of {len(classes):,} of {len(summary.classes):,} classes: "
            f"{some_of(classes)}; if shares cut the splits, {advice}"
        )


def describe_excluded(found: ExcludedNames) -> str:
    """How many images ``--exclude`` leaves out, and how many names there are not of one."""
    unknown = f"; {counted(found.unknown, 'name')} there that {_NOT_ONE}" if found.unknown else ""
    return f"{counted(found.images, 'image')} left out (--exclude){unknown}"


def _unmatched(found: Unmatched) -> list[tuple[str, str]]:
    """How many of what, and a few names, of the kinds of which there are any."""
    kinds: dict[Literal["missing", "unlisted"], str]
    kinds = {"missing": "listed but not there", "unlisted": "there but not listed"}
    return [
        (f"{counted(number, 'image')} {what}", ", ".join(found.first.get(kind, ())))
        for kind, what in kinds.items()
        if (number := getattr(found, kind))
    ]
