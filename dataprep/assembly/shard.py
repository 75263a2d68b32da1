"""Making one shard: write what the job hands over, in order, publish it and record it.

Memory is bounded by the number of images in flight, whatever the size of the shard or of the
data set.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from pathlib import Path

from dataprep.assembly.build_directory import building, check_written
from dataprep.assembly.commit import (
    CommitRecord,
    CommittedFile,
    Noted,
    Rejected,
    publish_once,
    temporary_files,
)
from dataprep.assembly.job import Job, Made
from dataprep.assembly.progress import ShardProgress
from dataprep.assembly.workspace import storage_error
from dataprep.images import Statistics
from dataprep.sinks import ShardName, ShardWriter, WrittenFile


class ShardStoppedError(Exception):
    """The run was stopped while the shard was being written; nothing of it is left."""


def write_shard(
    job: Job, shard: ShardName, *, pool: Executor | None, window: int, stop: Callable[[], bool]
) -> None:
    """Make and commit one shard; the bytes depend on nothing but the job and the shard.

    Args:
        job: what to build.
        shard: which shard.
        pool: who reads and converts images; None does it in the calling thread.
        window: how many images may be in flight in the pool.
        stop: asked before every image; True abandons the shard.

    Raises:
        ShardStoppedError: ``stop`` said so.
        SourceError: the raw data cannot be read or has changed since it was indexed.
        SinkError: the shard cannot be written, for example because the disk is full.
    """
    output = job.output
    sink = output.load_sink()
    finals = [job.workspace.out / path for path in sink.paths(shard, output.layout)]
    tally = _Tally()
    progress = ShardProgress(job.workspace, shard, job.lease.look_seconds)
    try:
        with temporary_files(finals) as temporaries:
            with building(temporaries, output) as places:
                writer = places.open(sink, output.info)
                try:
                    for item in _until(stop, job.items(shard, pool, window)):
                        tally.count(item, writer)
                        progress.advance()
                    written = writer.close()
                except BaseException:
                    writer.abandon()
                    raise
                check_written(sink, places.paths, written)
                places.deliver(written)
            if job.lease.lost_now():
                raise ShardStoppedError
            record = _record(job, shard, tally, finals, written)
            publish_once(job.workspace, record, temporaries, finals)
    except OSError as error:
        raise storage_error(error, job.workspace.out, f"writing {shard}") from error
    finally:
        progress.finish()


def _until(stop: Callable[[], bool], items: Iterator[Made | Rejected]) -> Iterator[Made | Rejected]:
    for item in items:
        if stop():
            raise ShardStoppedError
        yield item


@dataclass(slots=True)
class _Tally:
    """What has been written so far, and what has not."""

    records: int = 0
    labels: Counter[int] = field(default_factory=Counter)
    label_sets: Counter[str] = field(default_factory=Counter)
    rejected: list[Rejected] = field(default_factory=list)
    noted: list[Noted] = field(default_factory=list)
    statistics: Statistics | None = None

    def count(self, item: Made | Rejected, writer: ShardWriter) -> None:
        if isinstance(item, Rejected):
            self.rejected.append(item)
            return
        writer.write(item.example)
        self.records += 1
        self.labels.update(item.example.labels)
        self.label_sets["|".join(map(str, item.example.labels))] += 1
        self.noted += item.noted
        if item.measured is not None:
            self.statistics = self.statistics or Statistics()
            self.statistics.add(item.measured)


def _record(
    job: Job,
    shard: ShardName,
    tally: _Tally,
    finals: Sequence[Path],
    written: Sequence[WrittenFile],
) -> CommitRecord:
    return CommitRecord(
        split=shard.split,
        number=shard.number,
        count=shard.count,
        files=tuple(
            CommittedFile(final.relative_to(job.workspace.out).as_posix(), file.bytes, file.sha256)
            for final, file in zip(finals, written, strict=True)
        ),
        records=tally.records,
        classes=dict(sorted(tally.labels.items())),
        rejected=tuple(tally.rejected),
        noted=tuple(tally.noted),
        statistics=None if tally.statistics is None else tally.statistics.to_json(),
        label_sets=dict(sorted(tally.label_sets.items())) if job.output.info.multilabel else {},
    )
