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
    """The statistics of the images of a shard, before anything is divided."""

    images: Count
    formats: dict[Option, Count]
    sizes: tuple[Sum, ...]  # in bytes, heights and widths
    shorter_side: tuple[Count, ...]  # images by bin; so is `aspect_ratio`
    aspect_ratio: tuple[Count, ...]
    histogram: tuple[tuple[Count, ...], ...] | None = None  # pixels by level, a channel each


class CommitRecord(State, frozen=True, tag="dataprep-commit-2"):
    """What one finished shard holds."""

    shard: ShardName
    files: Annotated[tuple[File, ...], Meta(min_length=1)]  # the data file first, then sidecars
    rows: RowsFile  # the file of its rows of the table of records
    records: Count  # how many examples were written
    rejected: Count = 0  # how many images were not
    noted: Count = 0  # how many of the examples were repaired, or their decoder complained
    statistics: Counted | None = None
    # Distributions that had a part in it beside those that every shard needs.
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
    """What a directory is being made from, and how."""

    identity: Identity
    units: dict[Text, Text]  # a digest of every piece of the input, by its name
    # Of a data set that grew, how many; no job makes that again. 0 of others.
    generations: Count = 0


class IndexPart(State, frozen=True, kw_only=True, tag="dataprep-index-2"):
    """What is kept of a scan unit besides its rows."""

    fingerprint: str  # the cheap identity of the raw input at the time of the scan
    table: Sha256  # SHA-256 of the table
    restarts: Sha256 = ""  # that of the restart points; empty if there are none
    copied: Count = 0  # bytes of the file of images that were copied; 0 if there is none
    # Those that the unit knows of, with images or without; empty if the data set knows.
    classes: tuple[str, ...]
    statuses: dict[Option, Count]  # rows by status
    counts: dict[Text, Count]  # what the scan counted


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
    """The index as a whole."""

    key: Sha256  # of what it was made from
    splits: tuple[SplitName, ...]  # those that are prepared, in order
    classes: Classes
    input: dict[SplitName, Input]  # of each split that is prepared: the same for every raw layout
    unmatched: Unmatched
    excluded: ExcludedNames | None  # null if nothing was to be left out
    assigned: Assigned | None  # null if nothing was assigned before
    # How many files are no images, and a line on the first; empty if none.
    ignored: tuple[Count, str]
    counts: dict[Text, Count]  # what was counted, by what it is
    # Of splits in which some class has no image, the names of those that others have.
    lacking: dict[SplitName, tuple[str, ...]]
    said: Text = ""  # how the classes are known, if that is not plain; empty if it is

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


class StoredOrder(State, frozen=True, tag="dataprep-order-4"):
    """The order of a split's images: what it was made from, and what each block of it is."""

    token: Sha256
    ends: tuple[Count, ...]  # of each shard, the number behind its last image
    blocks: tuple[Sha256, ...]
    block_ends: tuple[Count, ...]  # of each block, the number behind its last image


class MergeJournal(State, frozen=True, tag="dataprep-merge-2"):
    """What --append or compact is doing: files get other names, or go, and then the manifest."""

    manifest: Manifest
    # Present and new path.
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
    """A file that is in a target, under its final name."""

    path: str  # relative to the target
    bytes: int  # its size; -1 of what is no file
    sha256: Sha256 | None  # of what was written; None if it was not hashed
    modified: int  # its time of modification, in ns


class Sentinel(State, frozen=True, tag="dataprep-sentinel-5"):
    """A whole copy, or one that is planned."""

    source: str  # the directory it is a copy of
    digest: Sha256  # the inventory's (a manifest's SHA-256, or a listing's)
    selection: Sha256  # `Selection.digest`: the same of the files that are here
    job: str | None  # the scheduler's job that made it; None outside of any
    shared: bool  # whether other jobs may use it
    # Every file, with its size and time of modification when it was copied; of a planned copy all
    # that may be here, however staging ended, of which only the paths say something.
    files: tuple[CopiedFile, ...]
    asked: str = ""  # which part of the source the call asked for, see `StageRequest.asked`


class JobLease(State, frozen=True, tag="dataprep-lease-2"):
    """That a job uses a copy that jobs share."""

    job: str


class Outcome(State, frozen=True, kw_only=True, tag="dataprep-outcome-2"):
    """How the copier of a launch fared on a node."""

    error: str | None = None  # why there is no copy, in one line; None if there is one
    exit_code: int = 0  # of the copier's process
    time: float  # when it was told, in seconds since the epoch, by this node's clock


class Failure(State, frozen=True, tag="dataprep-failure-2"):
    """What went wrong in a worker, by the name of its class."""

    kind: str
    message: str
    traceback: str


class Marker(Struct, frozen=True, forbid_unknown_fields=True):
    """Who holds an output directory; see `dataprep.jobs.output.lock`."""

    process: Annotated[int, Meta(ge=1, lt=2**31)]  # the holder's number
    host: str  # the name of its host
    machine: str  # boot and process namespace, where the number means the same; empty if unknown
    # When the process started, in no unit that matters, so that a reused number is not taken for
    # it; empty if unknown.
    start: str
    token: str  # unlike that of any other claim
    since: float  # when the claim was made, in seconds since 1970 by the file system's clock
