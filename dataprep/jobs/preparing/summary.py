"""What all parts of the index say together: checked, summed up, and told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from dataprep.datasets import wanted_splits
from dataprep.datasets.splits import in_usual_order
from dataprep.errors import DatasetError, RejectedError, SourceError, UsageError
from dataprep.jobs.output.commit import rejected_images
from dataprep.jobs.output.index_parts import IndexParts
from dataprep.jobs.output.workspace import Workspace
from dataprep.jobs.preparing.found import RawData, refuse_links
from dataprep.jobs.request import Request, check_splits
from dataprep.jobs.running.job import Job, is_split
from dataprep.sealed.set import SealedSet
from dataprep.system.messages import counted, printable, some_of
from dataprep.system.state_files import digest_of, file_sha256, read_state, write_state
from dataprep.tables.decisions import renamed_classes
from dataprep_schemas.manifest import Decided, Manifest, Selected, Unmatched
from dataprep_schemas.state import CommitRecord, ScanSummary

if TYPE_CHECKING:
    from dataprep.tables.images import Images

Classes = Sequence[tuple[str, str]]
"""Identifier and name of each class, in the order of their numbers."""

_SHOWN: Final = 10  # rejected images spelled out; all of them are in the table
_RULES: Final = 3  # raise it whenever the same index would be summarized otherwise


def open_images(
    raw: RawData, request: Request, parts: IndexParts, grown: SealedSet | None
) -> Images:
    """The images of the index; nothing is read until something is asked.

    Args:
        grown: the data set that is to get those that it does not have; None: there is none.
    """
    from dataprep.tables.images import Images

    workspace, what = Workspace(request.out), raw.found
    names = parts.class_names() if what.classes is None else set()
    return Images(
        parts.tables(),
        workspace.private,
        parts.statuses(),
        what.fields,
        request.splits,
        request.exclude,
        None if grown is None else Workspace(grown.out).records,
        request.folds,
        what.cut,
        workspace.records if grown is None else None,
        raw.dataset.name_classes(what, names).identifiers if names else {},
        {} if grown is None or (decided := decided_of(grown.manifest)) is None else decided.classes,
    )


def summarize(
    raw: RawData, request: Request, parts: IndexParts, images: Images, grown: SealedSet | None
) -> ScanSummary:
    """Check the images, put together what is known of them, and tell it.

    At once if nothing has changed since that was done.

    Args:
        grown: what is added to: the input is what that does not have.

    Raises:
        DatasetError: the data set cannot grow by that.
        UsageError: a split was asked for that is not there.
        SourceError: there are no images, or no labels; a name or a group is where it must not be;
            or a link leads out of the raw data, and must not.
    """
    if request.links == "inside":
        refuse_links(request.raw, raw.found, images)
    path = Workspace(request.out).order / "summary.json"
    index = _Index(raw, request, parts, images, grown)
    key = index.key()
    summary = read_state(path, ScanSummary)
    if summary is None or summary.key != key:
        unmatched = index.keep_unmatched()
        splits = index.splits(unmatched)
        classes, said = index.classes(splits)
        index.check()
        summary = index.counted(key, splits, classes, said, unmatched)
        write_state(path, summary)
    _report(summary, raw.report, stratified=raw.found.cut is not None)
    return summary


@dataclass(frozen=True, slots=True)
class _Index:
    """All parts of the index, and for what they are looked at."""

    raw: RawData
    request: Request
    parts: IndexParts
    images: Images
    grown: SealedSet | None

    def key(self) -> str:
        """Of all that the summary is made from."""
        request, grown, found = self.request, self.grown, self.raw.found
        made_of = [
            *(_RULES, request.splits, request.said_limit, request.seed, found.splits),
            found.classes,
            None if request.exclude is None else _sha256(request.exclude),
            [[unit.name, part.table, part.fingerprint] for unit, part in self.parts.units.items()],
            "" if grown is None else grown.manifest.sha256,
            "" if found.cut is None else found.cut.digest,
        ]
        return digest_of(made_of)

    def keep_unmatched(self) -> Unmatched:
        """What is listed and not there, or the other way round; all of it goes into a file."""
        unmatched, path = self.images.unmatched(), Workspace(self.request.out).unmatched
        if unmatched.first:
            self.images.write_unmatched(path)
        else:
            path.unlink(missing_ok=True)  # of an earlier run
        return unmatched

    def splits(self, unmatched: Unmatched) -> Sequence[str]:
        """The splits that are asked for, or that there are; each has images."""
        request, there = self.request, self.images.splits()
        if not there:
            others = "".join(f"; {what}, such as {names}" for what, names in _unmatched(unmatched))
            raise SourceError(
                f"no images found in {printable(str(request.raw))}{others}; check --raw, and "
                "what says which images there are"
            )
        splits = self.raw.found.splits or wanted_splits(in_usual_order(there), request.splits)
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
        return splits

    def classes(self, splits: Sequence[str]) -> tuple[Classes, str]:
        """The classes, and what is to be said of how images got them."""
        found, said = self.raw.found, ""
        known: Classes | None = found.classes
        listed = known is not None
        if known is None:
            names = self.parts.class_names() or self.images.class_names()
            named = self.raw.dataset.name_classes(found, names)
            known, said = named.classes, named.reason
        if self.grown is None:
            return known, said
        if (decided := decided_of(self.grown.manifest)) is not None:
            # One that was emptied is there again once an image is of it.
            there = dict(self.grown.manifest.classes).keys() | self.images.fresh_classes()
            renamed = {old: new for old, new in decided.classes.items() if old in dict(known)}
            known = [each for each in renamed_classes(known, renamed) if each[0] in there]
            listed = False
        return _classes_of_all(self.grown, splits, known, listed=listed), ""

    def check(self) -> None:
        """Compare the images with the rules that all must follow."""
        from dataprep.tables.rules import check_groups, check_kept, check_keys, check_splits_known

        images, grown = self.images, self.grown
        check_splits_known(images.database)
        check_keys(images.database)
        check_groups(images.database, self.raw.dataset.group)
        if grown is None:
            return
        decided, sizes = decided_of(grown.manifest), self.request.recipe.keeps_bytes
        check_kept(images.database, sizes=sizes, labels=decided is None)
        before = grown.manifest.input if decided is None else decided.input
        if images.summaries("kept") != before:
            # The table does not have the sizes of rejected ones: any of them may be the cause.
            rejected = images.rejected_before()
            perhaps = f", perhaps of what was rejected ({some_of(rejected)})" if rejected else ""
            raise SourceError(
                f"images of {grown.out} have another size, or other labels or fields "
                f"than when it was made{perhaps}; --append only adds: bring back what "
                "was there, or use --overwrite to make the data set of what there is now"
            )

    def counted(
        self, key: str, splits: Sequence[str], classes: Classes, said: str, unmatched: Unmatched
    ) -> ScanSummary:
        """The images that are taken, chosen and counted."""
        images, found, request = self.images, self.raw.found, self.request
        names, many = [name for name, _ in classes], found.multilabel
        images.choose(splits, names, multilabel=many, seed=request.seed, limit=request.limit)
        if found.classes is None and self.grown is None:
            of_splits, folders = images.classes_by_split(), images.folders()
            self.raw.dataset.check_classes(found, names, of_splits, folders)
        counts: Counter[str] = Counter()
        for part in self.parts.units.values():
            counts.update(part.counts)
        counts.update(images.mask_counts())
        sums = images.summaries()
        return ScanSummary(
            key=key,
            splits=tuple(split for split in splits if split in sums),
            classes=tuple(classes),
            input=sums,
            unmatched=unmatched,
            excluded=images.excluded(),
            assigned=images.assigned(),
            ignored=images.ignored(),
            counts=dict(counts),
            said=said,
            # Those of a complete data set are what they are.
            lacking={
                split: tuple(names)
                for split, names in images.lacking().items()
                if split not in found.official_counts
            },
        )


def _classes_of_all(
    grown: SealedSet, splits: Sequence[str], found: Classes, *, listed: bool
) -> Classes:
    """The classes in an order that moves no label: those it has, then those that are new.

    Args:
        splits: those that there are now; a data set grows in the splits that it has.
        listed: whether a list says which classes there are; then it must say the same.
    """
    before, decided = grown.manifest.classes, decided_of(grown.manifest)
    known = grown.manifest.input if decided is None else decided.input
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


def decided_of(manifest: Manifest) -> Decided | None:
    """What was decided about the images of a data set; None if that is not all that was done.

    Then the raw data that it comes from tells what it lacks.
    """
    for source in manifest.lineage[:1] if len(manifest.lineage) == 1 else ():
        chosen = source.selected
        if chosen is not None and chosen == Selected(decided=chosen.decided):
            return chosen.decided if (source.sink, source.image) == (manifest.sink, None) else None
    return None


def cannot_grow(out: Path, why: str, instead: str) -> DatasetError:
    """The error, with what to do instead."""
    return DatasetError(f"{out} cannot grow by --append: {why}; {instead} (`dataprep convert`)")


def _sha256(path: Path) -> str:
    try:
        return file_sha256(path)
    except OSError as error:
        raise UsageError(
            f"--exclude {path} cannot be read ({error.strerror}); check the path"
        ) from error


def check_unmatched(request: Request, summary: ScanSummary, grown: SealedSet | None) -> None:
    """Refuse early, before hours of work, what could not be sealed.

    Raises:
        RejectedError: more images are missing or not listed, or more names to exclude no image's,
            than the user allows.
    """
    images, rejected = _before(grown)
    images += sum(split.images for split in summary.input.values()) + summary.unmatched.missing
    if request.max_bad.allows(rejected + summary.bad, images):
        return
    what = [text for text, _ in _unmatched(summary.unmatched)]
    where = f"; {Workspace(request.out).unmatched} names all of them" if what else ""
    if summary.excluded is not None and (unknown := summary.excluded.unknown):
        from dataprep.tables.exclude import NOT_ONE

        what.append(f"{counted(unknown, 'name')} in --exclude that {NOT_ONE}")
    if rejected:
        what.append(f"{counted(rejected, 'image')} rejected before")
    raise RejectedError(
        f"{' and '.join(what)}, --max_bad allows {request.max_bad}; no shard was written{where}",
        rejected=rejected + summary.bad,
    )


def check_rejected(
    job: Job,
    request: Request,
    records: Sequence[CommitRecord],
    summary: ScanSummary,
    grown: SealedSet | None,
    report: Callable[[str], None],
) -> None:
    """Name the images that were rejected, and make sure that the user allows so many.

    The decision is made from the commit records, so accepting rejected images later costs no
    second pass over the data. What is allowed is allowed of a data set that grows as a whole.

    Args:
        records: the commit record of every shard, all of them found intact.

    Raises:
        RejectedError: more were rejected; nothing is sealed, everything is kept.
    """
    images, rejected = _before(grown)
    now = sum(record.rejected for record in records)
    for name, key, container, reason in islice(rejected_images(job.workspace, records), _SHOWN):
        report(printable(f"rejected: {name}: {key} in {container}: {reason}"))
    if now > _SHOWN:
        report(f"rejected: and {now - _SHOWN} more; `dataprep status` lists them all")
    rejected += now
    images += sum(split.images for split in job.splits) + summary.unmatched.missing
    odd = summary.bad
    if not request.max_bad.allows(rejected + odd, images):
        more = f" and {odd} missing, not listed, or only in --exclude" if odd else ""
        there = job.workspace.manifest.exists()
        raise RejectedError(
            f"{rejected} of {images:,} images rejected{more}, --max_bad allows {request.max_bad}; "
            f"the shards are kept, {'and so is an earlier seal' if there else 'but not sealed'}",
            rejected=rejected + odd,
        )


def _before(grown: SealedSet | None) -> tuple[int, int]:
    """How many images a data set that is to grow was made from, and how many were rejected."""
    if grown is None:
        return 0, 0
    made_from = sum(split.images for split in grown.manifest.input.values())
    return made_from, grown.manifest.totals.rejected


def _report(summary: ScanSummary, report: Callable[[str], None], *, stratified: bool) -> None:
    """Tell the user what may be a surprise."""
    if summary.excluded is not None:
        from dataprep.tables.exclude import describe_excluded  # which loads Arrow

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


def _unmatched(found: Unmatched) -> list[tuple[str, str]]:
    """How many of what, and a few names, of the kinds of which there are any."""
    kinds: dict[Literal["missing", "unlisted"], str]
    kinds = {"missing": "listed but not there", "unlisted": "there but not listed"}
    return [
        (f"{counted(number, 'image')} {what}", ", ".join(found.first.get(kind, ())))
        for kind, what in kinds.items()
        if (number := getattr(found, kind))
    ]
