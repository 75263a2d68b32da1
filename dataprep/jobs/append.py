"""The data set that ``--append`` adds to: whether it can grow, and by what."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace as with_options
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace
from typing_extensions import override

from dataprep.datasets import Dataset
from dataprep.errors import DatasetError, SourceError, UsageError
from dataprep.jobs.identity import (
    claim,
    claim_generation,
    identity_of,
    is_other_job,
    what_differs,
)
from dataprep.jobs.image_job import ImageJob, choose_images, chosen_shuffle
from dataprep.jobs.merge import merge
from dataprep.jobs.request import Request
from dataprep.jobs.workspace import Workspace
from dataprep.sealed.set import SealedSet
from dataprep.sinks import ShardName
from dataprep.system.messages import counted, printable, some_of
from dataprep.tables.records import RecordsTable
from dataprep_schemas.manifest import Identity, SinkConfig

if TYPE_CHECKING:
    from dataprep.tables.images import Images
    from dataprep_schemas.state import ScanSummary


class NoBase:
    """Nothing to add to: the data set begins with this run, and fits whatever there is.

    Attributes:
        digest: of the manifest of what is added to; empty.
        records: its table of records; None.
        before: how many images it was made from, and how many of them were rejected.
    """

    digest: str = ""
    records: Path | None = None
    before: tuple[int, int] = (0, 0)

    def begin(self, request: Request) -> Request:
        """The request with the directory in which shards are made."""
        return request

    def check_splits(self, splits: Sequence[str]) -> None:
        """Any are right."""

    def check_classes(self, known: Sequence[tuple[str, str]]) -> None:
        """Any are right."""

    def classes_with(self, found: Sequence[tuple[str, str]]) -> Sequence[tuple[str, str]]:
        """All classes, in the order of their numbers."""
        return found

    def check_kept(self, images: Images, *, same_sizes: bool) -> None:
        """There is nothing that could have changed."""

    def fit(
        self,
        request: Request,
        summary: ScanSummary,  # noqa: ARG002 - only `Base` looks at it
        report: Callable[[str], None],  # noqa: ARG002 - nor has it anything to say
    ) -> Request | None:
        """The request for what there is to make; None if that is nothing."""
        return request

    def claim(
        self, job: ImageJob, identity: Identity, units: Mapping[str, str], changes: str
    ) -> None:
        """As `dataprep.jobs.identity.claim`."""
        claim(job, identity, units, overwrite=job.request.overwrite, changes=changes)

    def finish(self, job: ImageJob, made: SealedSet) -> SealedSet:  # noqa: ARG002 - as above
        """The whole, given what was made."""
        return made


class Base(NoBase):
    """A data set that is to grow."""

    def __init__(self, sealed: SealedSet) -> None:
        self.sealed, self.out, self.manifest = sealed, sealed.out, sealed.manifest
        self.digest = sealed.manifest.sha256
        self.records = Workspace(sealed.out).records
        images = sum(split.images for split in sealed.manifest.input.values())
        self.before = images, sealed.manifest.totals.rejected

    @override
    def begin(self, request: Request) -> Request:
        """What is new is made in a directory of its own."""
        workspace = Workspace(Workspace(self.out).generation)
        workspace.make()
        return with_options(request, out=workspace.out)

    def check_options(self, request: Request, dataset: Dataset) -> None:
        """Refuse what would not be made as the rest was.

        Raises:
            DatasetError: names the options that differ.
        """
        sink, theirs = request.load_sink(), identity_of(self.manifest)
        ours = replace(
            theirs,
            dataset=request.dataset,
            dataset_config=dict(dataset.config()),
            seed=request.seed,
            shuffle={name: chosen_shuffle(name, request) for name in self.manifest.splits},
            image=request.recipe.config(),
            sink=SinkConfig(sink.name, dict(sink.config())),
            layout=request.layout,
        )
        if theirs != ours:
            raise DatasetError(
                f"{self.out} was made with {what_differs(theirs, ours)}; --append needs the same "
                "options; use those, or --overwrite to start it anew"
            )

    @override
    def check_splits(self, splits: Sequence[str]) -> None:
        """A data set grows in the splits that it has.

        Raises:
            DatasetError: the raw data, or what was asked for of it, has others.
        """
        known = self.manifest.splits
        if {*splits} != {*known}:
            raise DatasetError(
                f"{self.out} has the splits {some_of(known)}, now there are {some_of(splits)}; "
                "--append adds to every split that there is, and to no other: use the same raw "
                "data and --splits, or --overwrite to start it anew"
            )

    @override
    def check_classes(self, known: Sequence[tuple[str, str]]) -> None:
        """Where a list says which classes there are, it must say the same.

        Raises:
            DatasetError: it does not.
        """
        if tuple(known) != self.manifest.classes:
            raise DatasetError(
                f"{self.out} was made with another list of classes; --append needs the same one; "
                "use that, or --overwrite to start it anew"
            )

    @override
    def classes_with(self, found: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        """The classes in an order that moves no label: those it has, then those that are new."""
        known = {identifier for identifier, _ in self.manifest.classes}
        return [*self.manifest.classes, *(entry for entry in found if entry[0] not in known)]

    @override
    def check_kept(self, images: Images, *, same_sizes: bool) -> None:
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
        if images.kept_summaries() == self.manifest.input:
            return
        number, split, key = changed(images, sizes=same_sizes)
        what = f"{split}: {printable(key)} has" if number else f"images of {self.out} have"
        raise SourceError(
            f"{what} another size, or other labels or boxes, than when it was made"
            f"{_others(number)}; --append only adds; bring back what they were, or use "
            "--overwrite to make the data set of what there is now"
        )

    @override
    def fit(
        self, request: Request, summary: ScanSummary, report: Callable[[str], None]
    ) -> Request | None:
        """With as many shards as make none larger than the largest there is."""
        if not summary.input:
            report(f"{self.out} has all images already, nothing to add")
            shutil.rmtree(request.out)  # perhaps something was begun
            return None
        number = len(self.manifest.classes)
        if new := [name for name, _ in summary.classes[number:]]:
            sink = request.load_sink()
            if sink.stores_classes(self.sealed.info):
                why = f"{some_of(new)} would be new, and each shard of {sink.name} has all classes"
                instead = "use --overwrite; or let a webdataset grow, and make this of it"
                raise _cannot_grow(self.out, why, instead)
            report(
                f"{counted(len(new), 'new class', 'new classes')}, numbered from {number} on so "
                f"that no label moves: {some_of(new)}"
            )
        splits = self.manifest.splits
        counts = {
            name: -(-new.images // splits[name].records_per_shard[1])
            for name, new in summary.input.items()
        }
        return with_options(request, num_shards=counts)

    @override
    def claim(
        self, job: ImageJob, identity: Identity, units: Mapping[str, str], changes: str
    ) -> None:
        """What was begun there of other images is deleted."""
        claim_generation(job, identity, units)

    @override
    def finish(self, job: ImageJob, made: SealedSet) -> SealedSet:
        """Make what was made a part of the data set."""
        return merge(self.sealed, job, made)


def tell_changes(
    job: ImageJob,
    identity: Identity,
    units: Mapping[str, str],
    images: Images,
    report: Callable[[str], None],
) -> str:
    """What is another in the input than when OUT was sealed; empty if that is not known.

    Says what becomes of the images' labels and splits if that is to be made anew.
    """
    out, request = job.workspace.out, job.request
    unknown = images.sealed is None  # of one that grows, which has its own refusals
    if unknown or not (request.overwrite or is_other_job(job.workspace, identity, units)):
        return ""
    try:
        sealed = SealedSet.read(out)
        sealed.require_whole("compared")
        RecordsTable(out, sealed.manifest.records_table).close()
    except DatasetError:
        return ""
    choose_images(job, images, seed=request.seed, limit=request.limit)
    from dataprep.tables.comparison import compared

    found = compared(images, sizes=request.recipe.keeps_bytes)
    renumbered, moved, new, folders, gone, altered = found
    if request.overwrite and (renumbered or moved):
        report(
            f"of the images of {out}, which is made anew, {renumbered:,} get another class number "
            f"and {moved:,} another split: what was trained with it does not fit any more"
        )
    said = [f"{counted(new, 'image')} in {counted(folders, 'folder')} new"] if new else []
    said += [f"{counted(gone, 'image')} gone"] if gone else []
    said += [f"{counted(altered, 'image')} of another size or class"] if altered else []
    return ", ".join(said) + (", which --append adds" if new and len(said) == 1 else "")


def check_append(request: Request) -> None:
    """Refuse options that --append cannot follow.

    Raises:
        UsageError: names one.
    """
    if not request.append:
        return
    given = {
        "--overwrite": request.overwrite,
        "--limit": request.limit,
        "--num_shards": request.num_shards,
        "--stats": request.recipe.statistics != "off",
    }
    for option in (name for name, value in given.items() if value):
        raise UsageError(
            f"{option} cannot be used with --append: new images are put into shards of the size "
            f"that there is; leave out {option}"
        )


def read_base(request: Request, dataset: Dataset) -> NoBase:
    """What the run adds to: the data set in its directory, if --append is asked for.

    Raises:
        DatasetError: there is none, it cannot grow, or was made otherwise; says what to do instead.
    """
    if not request.append:
        return NoBase()
    out = request.out
    if not Workspace(out).manifest.exists():
        raise DatasetError(
            f"{out} has no finished data set to add to; leave out --append to make one, or to "
            "finish the one that was begun"
        )
    sealed = SealedSet.read(out)
    sealed.require_whole("added to")
    manifest, sink = sealed.manifest, sealed.sink
    single = "keep a data set in tfrecord or webdataset, let that grow, and make this of it"
    if manifest.lineage:
        raise _cannot_grow(out, "it was converted", "let its source grow, and convert that again")
    if manifest.limit is not None:
        raise _cannot_grow(out, "it was made with --limit", "make it without, by --overwrite")
    for name, split in manifest.splits.items():
        count = len(split.shards)
        if split.statistics is not None:
            raise _cannot_grow(out, "it has statistics (--stats)", "make it without, --overwrite")
        if sink.split_paths(name, count, manifest.layout):
            raise _cannot_grow(out, f"{sink.name} has files of all of {name}", single)
        shard = ShardName(name, 0, count)
        if count == 1 and str(shard) not in str(sink.paths(shard, manifest.layout)[0]):
            raise _cannot_grow(out, f"{sink.name} has one file of all of {name}", single)
    for file in manifest.files():
        path = out / file.path
        if not path.is_file() or path.stat().st_size != file.bytes:
            raise DatasetError(
                f"{path} is missing or damaged, and only a whole data set can grow; `dataprep "
                "verify` names all bad files; bring them back, or use --overwrite"
            )
    base = Base(sealed)
    base.check_options(request, dataset)
    return base


def _cannot_grow(out: Path, why: str, instead: str) -> DatasetError:
    return DatasetError(f"{out} cannot grow by --append: {why}; {instead} (`dataprep convert`)")


def _others(number: int) -> str:
    return f", and {counted(number - 1, 'other image')}" if number > 1 else ""
