"""The last step: account for every image, decide, and write the manifest."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from dataprep.build.commit import CommitRecord, Commits
from dataprep.build.contents import describe_split
from dataprep.build.job import Job
from dataprep.build.joined_rows import join_rows
from dataprep.build.lock import check_held
from dataprep.build.manifest import seal_manifest
from dataprep.build.rejected import keep_rejected_images, rejected_images, rejected_keys
from dataprep.build.split_files import make_split_files
from dataprep.errors import DatasetError, PipelineError, RejectedError, UsageError
from dataprep.system.durable_files import sync_directory, write_durably
from dataprep.system.messages import printable
from dataprep.system.state_files import to_json

if TYPE_CHECKING:
    import pyarrow as pa

_SHOWN = 10  # rejected images spelled out on the terminal; all of them are in the table


@dataclass(frozen=True, slots=True)
class MaxBad:
    """How many rejected images are acceptable: a number, or a share of all images."""

    number: int = 0
    share: Fraction | None = None

    @classmethod
    def parse(cls, text: str) -> MaxBad:
        """``"12"`` or ``"0.5%"``.

        Raises:
            UsageError: anything else.
        """
        if re.fullmatch(r"[0-9]+", text):
            return cls(number=int(text))
        if re.fullmatch(r"[0-9]+(\.[0-9]+)?%", text) and (share := Fraction(text[:-1]) / 100) <= 1:
            return cls(share=share)
        raise UsageError(f"--max_bad {text}: expected a number such as 5, or a share such as 0.1%")

    def allows(self, rejected: int, images: int) -> bool:
        """Whether that many of that many may be missing."""
        return rejected <= (self.number if self.share is None else self.share * images)

    def __str__(self) -> str:
        """As the user would write it."""
        return str(self.number) if self.share is None else f"{float(self.share * 100):g}%"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is sealed.

    Attributes:
        unmatched: images that are listed but missing, or there but not listed.
        spread: the largest difference of any class's count between two shards of a stratified
            split, if an image has any number of classes; None if there is none.
    """

    records: int
    bytes: int
    shards: int
    rejected: int
    noted: int
    unmatched: int = 0
    spread: int | None = None


def seal(
    job: Job,
    identity: Mapping[str, object],
    *,
    max_bad: MaxBad,
    keep_rejected: bool,
    report: Callable[[str], None],
    missing: int = 0,
    unlisted: int = 0,
    others: Iterable[pa.Table] = (),
    statistics: Mapping[str, Any] | None = None,
) -> Outcome:
    """Write the manifest, if no more images were rejected than the user allows.

    Every decision is made from the commit records, so accepting rejected images later costs no
    second pass over the data.

    Args:
        job: what was built.
        identity: everything that shapes the bytes of the output.
        max_bad: how many images may be rejected, missing or not listed.
        keep_rejected: whether to copy rejected images.
        report: takes one line for the user.
        missing: how many images are listed but not there.
        unlisted: how many are there but not listed.
        others: rows of the table of records, of images that no shard was to have.
        statistics: of the splits' images, if they are known from before.

    Raises:
        RejectedError: more were rejected; nothing is sealed, everything is kept.
        PipelineError: a shard has no commit record.
        LockedError: another run has taken the directory over.
    """
    check_held(job.workspace, job.lease)
    records = _all_records(job)
    rejected = sum(record.rejected for record in records)
    bad = rejected + missing + unlisted
    for split, key, container, reason in islice(rejected_images(job, records), _SHOWN):
        report(printable(f"rejected: {split}: {key} in {container}: {reason}"))
    if rejected > _SHOWN:
        report(f"rejected: and {rejected - _SHOWN} more; `dataprep status` lists them all")
    if keep_rejected:
        keep_rejected_images(job, rejected_keys(job, records))
    images = sum(split.images for split in job.splits) + missing
    if not max_bad.allows(bad, images):
        others = f" and {missing + unlisted} missing or not listed" if missing + unlisted else ""
        raise RejectedError(
            f"{rejected} of {images:,} images rejected{others}, --max_bad allows {max_bad}; "
            f"the shards are kept, {_seal_state(job)}",
            rejected=bad,
        )
    _check_complete(job, records)
    by_split = {
        split.name: [record for record in records if record.split == split.name]
        for split in job.splits
    }
    joined = join_rows(job, records, others)
    known = statistics or {}
    files = {split.name: make_split_files(job, split, by_split[split.name]) for split in job.splits}
    manifest = seal_manifest(
        {
            **identity,
            "classes": [list(entry) for entry in job.output.info.classes],
            "records_table": joined.described,
            "totals": joined.totals,
            "splits": {
                name: describe_split(shards, files[name], joined.splits[name], known.get(name))
                for name, shards in by_split.items()
            },
        }
    )
    # The manifest must never outlive a shard's rename in a power cut.
    out = job.workspace.out
    written = [*chain(*files.values()), *chain(*(record.files for record in records))]
    for directory in {out, *((out / file.path).parent for file in written)}:
        sync_directory(directory)
    check_held(job.workspace, job.lease)
    write_durably(job.workspace.manifest, to_json(manifest))
    sync_directory(out)
    return Outcome(
        records=sum(record.records for record in records),
        bytes=sum(file.bytes for file in written),
        shards=len(records),
        rejected=joined.totals["rejected"],
        noted=joined.totals["repaired"] + joined.totals["warned"],
        unmatched=missing + unlisted,
        spread=_worst_spread(manifest) if job.output.info.multilabel else None,
    )


def _worst_spread(manifest: Mapping[str, Any]) -> int | None:
    """The worst of all stratified splits of several shards; None if there is no such split."""
    several = [
        int(split["class_spread"])
        for name, split in manifest["splits"].items()
        if len(split["shards"]) > 1 and manifest["shuffle"][name] == "stratified"
    ]
    return max(several, default=None)


def _all_records(job: Job) -> list[CommitRecord]:
    found = {record.shard: record for record in Commits(job.workspace).all()}
    missing = [shard for shard in job.shard_names() if shard not in found]
    if missing:
        raise PipelineError(
            f"the engine ended but {len(missing)} shards are missing, the first {missing[0]}; "
            "run the same command again to make them"
        )
    return [found[shard] for shard in job.shard_names()]


def _seal_state(job: Job) -> str:
    return "and so is an earlier seal" if job.workspace.manifest.exists() else "but not sealed"


def _check_complete(job: Job, records: Sequence[CommitRecord]) -> None:
    for split in job.splits:
        found = sum(record.images for record in records if record.split == split.name)
        if found != split.images:
            raise DatasetError(
                f"{split.name}: the commit records account for {found} images, the raw data has "
                f"{split.images}; a record was damaged: use --overwrite to start anew"
            )
    for record in records:
        if record.records == 0:
            raise DatasetError(
                f"{record.shard} is empty: all its {record.images} images were rejected; "
                "mend the raw data or use fewer --num_shards, and --overwrite"
            )
