"""What dataprep keeps for itself, and for the next run, as frozen types.

Below ``.dataprep`` of an output directory: jobs, commit records, the index, the order, a merge. In
a copy: ``part.json`` and, below ``.dataprep-stage``, the sentinel and notes. All but the notes have
a name of their form and a hash of themselves; see `dataprep.system.state_files`.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from dataprep_schemas.manifest import (
    Classes,
    Count,
    Excluded,
    File,
    FilePath,
    Identity,
    Input,
    Manifest,
    Option,
    Positive,
    Sha256,
    SplitName,
    Text,
    Unmatched,
    Value,
)


class State(
    Struct,
    frozen=True,
    forbid_unknown_fields=True,
    kw_only=True,
    omit_defaults=True,
    tag_field="format",
):
    """A file that has a hash of itself.

    Attributes:
        sha256: of the same file without this line; see *Hashes*.
    """

    sha256: Sha256 = ""


class ShardName(Struct, frozen=True, forbid_unknown_fields=True):
    """Which shard of which split; what file names are made of."""

    split: SplitName
    number: Count
    count: Positive

    def __str__(self) -> str:
        """The TPU script's name, ``train-00000-of-01024``: zero-based, no extension."""
        return f"{self.split}-{self.number:05d}-of-{self.count:05d}"


class Sum(Value, frozen=True):
    """Sum, smallest and largest of whole numbers."""

    total: Count
    min: Count
    max: Count


class Counted(Value, frozen=True):
    """The statistics of the images of a shard, before anything is divided.

    Attributes:
        sizes: in bytes, heights and widths.
        shorter_side: images by bin; so is `aspect_ratio`.
        histogram: pixels by level, a channel each.
    """

    images: Count
    formats: dict[Option, Count]
    sizes: tuple[Sum, ...]
    shorter_side: tuple[Count, ...]
    aspect_ratio: tuple[Count, ...]
    histogram: tuple[tuple[Count, ...], ...] | None = None


class CommitRecord(State, frozen=True, tag="dataprep-commit-2"):
    """What one finished shard holds.

    Attributes:
        files: the data file first, then sidecars.
        rows: the file of its rows of the table of records.
        records: how many examples were written.
        rejected: how many images were not.
        noted: how many of the examples were repaired, or their decoder complained.
        extras: distributions that had a part in it beside those that every shard needs.
    """

    shard: ShardName
    files: Annotated[tuple[File, ...], Meta(min_length=1)]
    rows: RowsFile
    records: Count
    rejected: Count = 0
    noted: Count = 0
    statistics: Counted | None = None
    extras: tuple[Text, ...] = ()

    @property
    def images(self) -> int:
        """How many images were read: written or rejected."""
        return self.records + self.rejected


class RowsFile(Value, frozen=True):
    """A file below ``.dataprep/commits``, with its path from the output directory."""

    path: Annotated[str, Meta(pattern=r"^\.dataprep/commits/[^/\x00-\x1f]+\.parquet$(?!\n)")]
    bytes: Count
    sha256: Sha256


class StoredJob(State, frozen=True, tag="dataprep-job-2"):
    """What a directory is being made from, and how.

    Attributes:
        units: a digest of every piece of the input, by its name.
        generations: of a data set that grew, how many; no job makes that again. 0 of others.
    """

    identity: Identity
    units: dict[Text, Text]
    generations: Count = 0


class IndexPart(State, frozen=True, kw_only=True, tag="dataprep-index-2"):
    """What is kept of a scan unit besides its rows.

    Attributes:
        fingerprint: the cheap identity of the raw input at the time of the scan.
        table: SHA-256 of the table.
        restarts: that of the restart points; empty if there are none.
        copied: bytes of the file of images that were copied; 0 if there is none.
        classes: those that the unit knows of, with images or without; empty if the data set knows.
        statuses: rows by status.
        counts: what the scan counted.
    """

    fingerprint: str
    table: Sha256
    restarts: Sha256 = ""
    copied: Count = 0
    classes: tuple[str, ...]
    statuses: dict[Option, Count]
    counts: dict[Text, Count]


class ExcludedNames(Excluded, frozen=True):
    """What the user left out, and how many of the names are of no image, or of several."""

    unknown: Count


class Assigned(Value, frozen=True):
    """How many images and groups ``--splits_from`` names, and how many of these are there."""

    images: Count
    images_there: Count
    groups: Count
    groups_there: Count


class ScanSummary(State, frozen=True, tag="dataprep-summary-3"):
    """The index as a whole.

    Attributes:
        key: of what it was made from.
        splits: those that are prepared, in order.
        input: of each split that is prepared: the same for every raw layout.
        excluded: null if nothing was to be left out.
        assigned: null if nothing was assigned before.
        ignored: how many files are no images, and a line on the first; empty if none.
        counts: what was counted, by what it is.
        lacking: of splits in which some class has no image, the names of those that others have.
        said: how the classes are known, if that is not plain; empty if it is.
    """

    key: Sha256
    splits: tuple[SplitName, ...]
    classes: Classes
    input: dict[SplitName, Input]
    unmatched: Unmatched
    excluded: ExcludedNames | None
    assigned: Assigned | None
    ignored: tuple[Count, str]
    counts: dict[Text, Count]
    lacking: dict[SplitName, tuple[str, ...]]
    said: Text = ""

    @property
    def bad(self) -> int:
        """Images and names that count for ``--max_bad``, beside those that are rejected."""
        unknown = self.excluded.unknown if self.excluded else 0
        return self.unmatched.missing + self.unmatched.unlisted + unknown

    @property
    def has_unstored(self) -> bool:
        """Whether anything is known of that no shard is to have."""
        left_out = self.excluded.images if self.excluded else 0
        return bool(self.unmatched.first or self.ignored[0] or left_out)


class StoredOrder(State, frozen=True, tag="dataprep-order-3"):
    """The order of a split's images: what it was made from, and the hash of each block of it.

    Attributes:
        ends: of each shard, the number behind its last image.
    """

    token: Sha256
    ends: tuple[Count, ...]
    blocks: tuple[Sha256, ...]


class MergeJournal(State, frozen=True, tag="dataprep-merge-2"):
    """What --append or compact is doing: files get other names, or go, and then the manifest.

    Attributes:
        renames: present and new path.
    """

    manifest: Manifest
    renames: tuple[
        tuple[
            Annotated[str, Meta(pattern=r"^(?!/|(.*/)?(-|\.{0,2}(/|$)))[^\x00-\x1f]+$(?!\n)")],
            Annotated[str, Meta(pattern=r"^(?!/|(.*/)?(-|\.{0,2}(/|$)))[^\x00-\x1f]+$(?!\n)")],
        ],
        ...,
    ]
    deletions: tuple[FilePath, ...]


class Part(State, frozen=True, tag="dataprep-part-2"):
    """``part.json``: which shards of a data set are in a directory.

    Attributes:
        manifest_sha256: the hash that the manifest carries of itself.
        splits: numbers of the shards that are here, ascending, by split; a split that is not named
            is not here.
        split_files: paths of the files that are here of those made once for their split.
        node: 0-based index of the node that got them.
        nodes: how many nodes the shards were assigned to; 1 if only splits were chosen.
    """

    manifest_sha256: Sha256
    splits: dict[SplitName, tuple[Count, ...]]
    split_files: tuple[FilePath, ...] = ()
    node: Count = 0
    nodes: Positive = 1


class CopiedFile(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """A file that is in a target, under its final name.

    Attributes:
        path: relative to the target.
        bytes: its size; -1 of what is no file.
        sha256: of what was written; None if it was not hashed.
        modified: its time of modification, in ns.
    """

    path: str
    bytes: int
    sha256: Sha256 | None
    modified: int


class Sentinel(State, frozen=True, tag="dataprep-sentinel-5"):
    """A whole copy, or one that is planned.

    Attributes:
        source: the directory it is a copy of.
        digest: the inventory's (a manifest's SHA-256, or a listing's).
        selection: `Selection.digest`: the same of the files that are here.
        job: the scheduler's job that made it; None outside of any.
        shared: whether other jobs may use it.
        files: every file, with its size and time of modification when it was copied; of a planned
            copy all that may be here, however staging ended, of which only the paths say something.
        asked: which part of the source the call asked for, see `StageRequest.asked`.
    """

    source: str
    digest: Sha256
    selection: Sha256
    job: str | None
    shared: bool
    files: tuple[CopiedFile, ...]
    asked: str = ""


class JobLease(State, frozen=True, tag="dataprep-lease-2"):
    """That a job uses a copy that jobs share."""

    job: str


class Outcome(State, frozen=True, kw_only=True, tag="dataprep-outcome-2"):
    """How the copier of a launch fared on a node.

    Attributes:
        error: why there is no copy, in one line; None if there is one.
        exit_code: of the copier's process.
        time: when it was told, in seconds since the epoch, by this node's clock.
    """

    error: str | None = None
    exit_code: int = 0
    time: float


class Failure(State, frozen=True, tag="dataprep-failure-2"):
    """What went wrong in a worker, by the name of its class."""

    kind: str
    message: str
    traceback: str


class Marker(Struct, frozen=True, forbid_unknown_fields=True):
    """Who holds an output directory; see `dataprep.jobs.output.lock`.

    Attributes:
        process: the holder's number.
        host: the name of its host.
        machine: boot and process namespace, where the number means the same; empty if unknown.
        start: when the process started, in no unit that matters, so that a reused number is not
            taken for it; empty if unknown.
        token: unlike that of any other claim.
        since: when the claim was made, in seconds since 1970 by the file system's clock.
    """

    process: Annotated[int, Meta(ge=1, lt=2**31)]
    host: str
    machine: str
    start: str
    token: str
    since: float
