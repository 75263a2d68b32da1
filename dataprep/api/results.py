"""What the calls return; ``--json`` prints the same, field by field."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from dataprep.system.messages import counted, sized

if TYPE_CHECKING:
    from dataprep.build.status import Holder, SplitStatus, Status

State = Literal["running", "silent", "stopped", "rejected", "written", "incomplete", "sealed"]


def as_json(result: object) -> str:
    """A result as JSON: an object with its fields, in their order."""
    return json.dumps(_plain(result), indent=2, ensure_ascii=False)


def _plain(value: object) -> object:
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(inner) for inner in value]
    return str(value) if isinstance(value, Path) else value


@dataclass(frozen=True, slots=True)
class SealedSet:
    """A finished data set, as ``prepare`` and ``convert`` return it.

    Attributes:
        out: the directory of ``manifest.json``.
        records: how many records all splits have.
        shards: how many shards.
        bytes: of all shards.
        rejected: images that could not be used, and are named in ``records.parquet``.
        noted: images that were repaired, or about which there is a warning.
        unmatched: images that are listed but missing, or there but not listed.
        spread: the largest difference of any class's count between two shards of a stratified
            split with several shards; None if there is none.
    """

    out: Path
    records: int
    shards: int
    bytes: int
    rejected: int
    noted: int
    unmatched: int
    spread: int | None

    @classmethod
    def of(cls, out: Path, manifest: Mapping[str, Any]) -> SealedSet:
        """What its manifest says."""
        splits, totals = manifest["splits"], manifest["totals"]
        shards = [shard for split in splits.values() for shard in split["shards"]]
        files = [file for part in (*shards, *splits.values()) for file in part["files"]]
        spreads = [
            split["class_spread"]
            for name, split in splits.items()
            if len(split["shards"]) > 1 and manifest["shuffle"][name] == "stratified"
        ]
        return cls(
            out=out,
            records=totals["records"],
            shards=len(shards),
            bytes=sum(file["bytes"] for file in files),
            rejected=totals["rejected"],
            noted=totals["repaired"] + totals["warned"],
            unmatched=totals["missing"] + totals["unlisted"],
            spread=max(spreads, default=None) if manifest["examples"]["multilabel"] else None,
        )

    def __str__(self) -> str:
        """One line."""
        text = f"sealed {self.out / 'manifest.json'}: {counted(self.records, 'record')} in "
        text += f"{counted(self.shards, 'shard')}, {sized(self.bytes)}, "
        text += f"{self.rejected} rejected, {self.noted} noted"
        if self.unmatched:
            text += f", {self.unmatched} missing or not listed"
        if self.spread is not None:
            text += f"; no class differs by more than {self.spread} between two stratified shards"
        return text


@dataclass(frozen=True, slots=True)
class JobStatus:
    """How far the job in a directory is.

    Attributes:
        out: the directory.
        state: ``running``; ``silent``: no sign of life, probably dead; ``stopped``: nobody works
            and shards are missing; ``rejected``: all shards are there, but more images were
            rejected than allowed; ``written``: all shards are there, not sealed; ``sealed``;
            ``incomplete``: sealed, but shards were removed since.
        description: the same in words, with what to do next.
        splits: of each its name, and how many shards and images there will be and are done; none
            while the raw data is still being indexed.
        under_way: images in shards that are being written.
        rejected: images that were rejected so far.
        noted: images that were repaired, or about which there is a warning.
        images_per_second: of the run that is working, once it has committed a shard.
        seconds_left: as that rate goes.
        host: where the run works, or worked last.
        process: its number there.
        part: which part of a data set was staged here, e.g. ``part 2 of 4``.
    """

    out: Path
    state: State
    description: str
    splits: tuple[SplitStatus, ...]
    under_way: int
    rejected: int
    noted: int
    images_per_second: float | None
    seconds_left: float | None
    host: str | None
    process: int | None
    part: str | None

    @classmethod
    def of(cls, out: Path, status: Status) -> JobStatus:
        """What the directory tells."""
        state, description = _state(status)
        rate = status.images_per_second if status.works else None
        left = sum(split.images - split.images_done for split in status.splits) - status.under_way
        holder = status.holder
        return cls(
            out=out,
            state=state,
            description=description,
            splits=status.splits,
            under_way=status.under_way if status.works else 0,
            rejected=sum(record.rejected for record in status.records),
            noted=sum(record.noted for record in status.records),
            images_per_second=rate,
            seconds_left=max(left, 0) / rate if rate else None,
            host=None if holder is None else holder.host,
            process=None if holder is None else holder.process,
            part=status.part,
        )

    def __str__(self) -> str:
        """A line for the job, and one for each split."""
        lines = [f"{self.out}: {self.description}"]
        lines += [
            f"{split.name}: {split.shards_done} of {split.shards} shards, "
            f"{split.images_done:,} of {split.images:,} images"
            for split in self.splits
        ]
        if self.under_way:
            lines.append(f"{self.under_way:,} images in unfinished shards")
        if self.images_per_second is not None and self.seconds_left is not None:
            minutes = self.seconds_left / 60
            lines.append(
                f"{self.images_per_second:,.0f} images/s; about {minutes:.0f} minutes left"
            )
        return "\n".join(lines)


def _state(status: Status) -> tuple[State, str]:
    if status.holder is not None and status.holder.is_running is not False:
        return _run(status.holder)
    missing = sum(split.shards - split.shards_done for split in status.splits)
    if status.sealed and missing:
        text = f"sealed, but {counted(missing, 'shard')} missing; run the same command again"
        return "incomplete", text
    if status.sealed:
        return "sealed", f"sealed, {status.part}" if status.part else "sealed"
    if missing or not status.splits:
        return "stopped", "not running and not finished; run the same command again to resume"
    rejected = sum(record.rejected for record in status.records)
    if rejected:
        text = f"not sealed: --max_bad {rejected} with the same command accepts what was rejected"
        return "rejected", text
    return "written", "every shard is there, not sealed; run the same command again to seal it"


def _run(holder: Holder) -> tuple[State, str]:
    who = f"process {holder.process} on {holder.host}"
    if holder.is_running:
        return "running", f"running, {who}"
    sign = f"last sign of life {holder.silent_seconds:,.0f} s ago"
    if holder.works:
        return "running", f"running, {who}, {sign}"
    again = "run the same command again: it makes sure and resumes"
    return "silent", f"probably dead, {who}, {sign}; {again}"
