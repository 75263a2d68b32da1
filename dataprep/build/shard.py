"""Making one shard: write what the job hands over, in order, publish it and record it.

Memory is bounded by the number of images in flight, whatever the size of the shard or of the
data set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from pathlib import Path

from dataprep.build.build_directory import building, check_written
from dataprep.build.commit import (
    CommitRecord,
    CommittedFile,
    publish_once,
    temporary_files,
)
from dataprep.build.job import Job, Made, Rejected
from dataprep.build.progress import ShardProgress
from dataprep.build.shard_rows import ShardRows
from dataprep.images import Statistics
from dataprep.sinks import ShardName, WrittenFile
from dataprep.system.durable_files import storage_error
from dataprep.system.state_files import file_sha256


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
    out = job.workspace.out
    finals = [*(out / path for path in sink.paths(shard, output.layout)), job.workspace.rows(shard)]
    progress = ShardProgress(job.workspace, shard, job.lease.look_seconds)
    try:
        with temporary_files(finals) as temporaries:
            *shard_files, rows_file = temporaries
            with (
                ShardRows(rows_file, shard, output) as rows,
                building(shard_files, output) as places,
            ):
                statistics: Statistics | None = None
                writer = places.open(sink, output.info)
                try:
                    for item in _until(stop, job.items(shard, pool, window)):
                        if isinstance(item, Made):
                            writer.write(item.example)
                            if item.measured is not None:
                                statistics = statistics or Statistics()
                                statistics.add(item.measured)
                        rows.add(item)
                        progress.advance()
                    written = writer.close()
                except BaseException:
                    writer.abandon()
                    raise
                check_written(sink, places.paths, written)
                places.deliver(written)
                rows.close()
            if job.lease.lost_now():
                raise ShardStoppedError
            of_rows = WrittenFile(rows_file.stat().st_size, file_sha256(rows_file))
            record = _record(shard, rows, statistics, _committed(out, finals, [*written, of_rows]))
            publish_once(job.workspace, record, temporaries, finals)
    except OSError as error:
        raise storage_error(error, out, f"writing {shard}") from error
    finally:
        progress.finish()


def _until(stop: Callable[[], bool], items: Iterator[Made | Rejected]) -> Iterator[Made | Rejected]:
    for item in items:
        if stop():
            raise ShardStoppedError
        yield item


def _committed(
    out: Path, finals: Sequence[Path], written: Sequence[WrittenFile]
) -> list[CommittedFile]:
    return [
        CommittedFile(final.relative_to(out).as_posix(), file.bytes, file.sha256)
        for final, file in zip(finals, written, strict=True)
    ]


def _record(
    shard: ShardName,
    rows: ShardRows,
    statistics: Statistics | None,
    committed: Sequence[CommittedFile],
) -> CommitRecord:
    *files, of_rows = committed
    return CommitRecord(
        split=shard.split,
        number=shard.number,
        count=shard.count,
        files=tuple(files),
        rows=of_rows,
        records=rows.records,
        rejected=rows.statuses["rejected"],
        noted=rows.statuses["repaired"] + rows.statuses["warned"],
        statistics=None if statistics is None else statistics.to_json(),
    )
