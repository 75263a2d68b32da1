"""Making one shard: write what the job hands over, in order, publish it and record it.

Memory is bounded by the number of images in flight, whatever the size of the shard or of the
data set.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager, suppress
from itertools import accumulate, chain, repeat
from pathlib import Path, PurePath
from typing import Any, Final

import pyarrow as pa
import xxhash

from dataprep.formats import DatasetInfo, ShardName, ShardWriter, WrittenFile
from dataprep.images import Statistics
from dataprep.images.decode import metadata_of
from dataprep.images.fingerprint import Fingerprint, fingerprint
from dataprep.images.pixels import Pixels
from dataprep.jobs.output.commit import ShardProgress, publish_once, temporary_files
from dataprep.jobs.running.build_directory import building
from dataprep.jobs.running.job import Job, Made, Rejected
from dataprep.system.durable_files import storage_error
from dataprep.system.state_files import file_sha256
from dataprep.system.throttle import pay
from dataprep.tables import records as records_table
from dataprep_schemas.fields import Fields
from dataprep_schemas.manifest import File
from dataprep_schemas.state import CommitRecord, RowsFile
from dataprep_schemas.tables import schema_of

_GROUP: Final = 1 << 14  # rows kept in memory; a shard may have millions
# Of a few KB each. A fingerprint between two images takes three times as long as one after another.
_PICTURES: Final = 64

# The order in which `ShardRows` keeps what differs from row to row.
_COLUMNS: Final = (
    *("key", "status", "reason", "position", "labels", "format", "height", "width"),
    *("channels", "bytes", "xxh3", "container"),
)
_LOOKS: Final = ("phash", "brightness", "contrast", "flat")


class ShardStoppedError(Exception):
    """The run was stopped while the shard was being written; nothing of it is left."""


def write_shard(
    job: Job,
    shard: ShardName,
    turn: AbstractContextManager[object],
    *,
    pool: Executor | None,
    window: int,
    stop: Callable[[], bool],
) -> None:
    """Make and commit one shard; the bytes depend on nothing but the job and the shard.

    Args:
        turn: entered to make images; flushing and committing them are outside of it.
        pool: who reads and converts images; None does it in the calling thread.
        window: how many images may be in flight in the pool.
        stop: asked before every image; True abandons the shard.

    Raises:
        ShardStoppedError: ``stop`` said so.
        SourceError: the raw data cannot be read or has changed since it was indexed.
        SinkError: the shard cannot be written, for example because the disk is full.
    """
    out = job.request.out
    paths = job.sink.paths(shard, job.request.layout)
    finals = [*(out / path for path in paths), job.workspace.rows(shard)]
    progress = ShardProgress(job.workspace, shard, job.lease.look_seconds)

    def items() -> Iterator[Made | Rejected]:
        for item in job.source.items(job, shard, pool, window):
            if stop():
                raise ShardStoppedError
            yield item
            progress.advance()

    try:
        with temporary_files(finals) as temporaries:
            *files, rows_file = temporaries
            with ShardRows(rows_file, shard, job.info, job.fields) as rows:
                written, statistics = _write_files(job, files, rows, items(), turn)
                rows.close()
            if job.lease.lost(now=True):
                raise ShardStoppedError
            written.append(WrittenFile(rows_file.stat().st_size, file_sha256(rows_file)))
            names = [*paths, finals[-1].relative_to(out)]
            record = rows.record(names, written, statistics)
            publish_once(job.workspace, record, temporaries, finals)
    except OSError as error:
        raise storage_error(error, out, f"writing {shard}") from error
    finally:
        progress.finish()


def _write_files(
    job: Job,
    targets: Sequence[Path],
    rows: ShardRows,
    items: Iterable[Made | Rejected],
    turn: AbstractContextManager[object],
) -> tuple[list[WrittenFile], Statistics | None]:
    """Write a shard's files in the job's format.

    Args:
        targets: where they are in the end, whole and flushed.
        rows: gets a row of every item.
    """
    with building(targets, job) as places:
        writer = job.sink.open(places.paths, job.info)
        # A bound on bytes a second; what is built elsewhere pays when it is copied.
        scale = job.sink.value_bytes if job.sink.pixels else 1
        scale *= places.paths == places.targets
        try:
            with turn:
                statistics = _write_items(writer, rows, items, scale)
            written = writer.close()
        except BaseException:
            writer.abandon()
            raise
        places.deliver(written)
        return [*written], statistics


def _write_items(
    writer: ShardWriter, rows: ShardRows, items: Iterable[Made | Rejected], scale: int
) -> Statistics | None:
    """Write the examples, in order; returns their statistics, if they were measured.

    Args:
        scale: how many bytes of bandwidth a byte of an image pays.
    """
    statistics: Statistics | None = None
    for item in items:
        if isinstance(item, Made):
            writer.write(item.example)
            pay(len(item.example.encoded) * scale)
            if item.measured is not None:
                statistics = statistics or Statistics()
                statistics.add(item.measured)
        rows.add(item)
    return statistics


class ShardRows(AbstractContextManager["ShardRows"]):
    """Writes them; used by one thread, in a ``with`` block.

    Attributes:
        statuses: how many rows that were written have each.
        records: how many images were stored so far.

    Args:
        fields: what else is said of them.
    """

    def __init__(self, path: Path, shard: ShardName, info: DatasetInfo, fields: Fields) -> None:
        self.statuses: Counter[str] = Counter()
        self.records = 0
        self._extras: set[str] = set()
        self._shard = shard
        self._fields = [field.name for field in fields]
        self._drawn = {field.name for field in fields if field.rules.drawn}
        self._schema = schema_of("records", fields)
        self._identifiers = pa.array([name for name, _ in info.classes], pa.string())
        self._rows: list[tuple[Any, ...]] = []
        self._pictures: list[Pixels | Fingerprint | None] = []
        self._looks: list[tuple[Any, ...]] = []
        self._file = path.open("xb")
        self._writer = records_table.parquet_writer(self._file, self._schema)

    def add(self, item: Made | Rejected) -> None:
        """The next image of the shard."""
        self._extras.update(item.extras)
        if isinstance(item, Rejected):
            self._rows.append(
                (
                    *(item.key, "rejected", item.reason, None, item.labels),
                    *(None for _ in _COLUMNS[5:-1]),
                    *(
                        item.container,
                        {it: item.fields[it] for it in item.fields.keys() - self._drawn},
                    ),
                )
            )
        else:
            example = item.example
            metadata = () if example.format == "RAW" else metadata_of(example.encoded)
            self._rows.append(
                (
                    example.key,
                    item.status,
                    records_table.with_metadata(item.reason, metadata),
                    self.records,
                    example.labels,
                    example.format,
                    example.height,
                    example.width,
                    item.channels,
                    len(example.encoded),
                    xxhash.xxh3_128_hexdigest(example.encoded),
                    None,  # the same wherever the images lie, as the shard is
                    item.fields,
                )
            )
            self.records += 1
        self._pictures.append(None if isinstance(item, Rejected) else item.looks)
        if len(self._pictures) == _PICTURES:
            self._see()
        if len(self._rows) == _GROUP:
            self._flush()

    def close(self) -> None:
        """Write the rest, and see that it survives a power cut."""
        if self._rows:
            self._flush()
        self._writer.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def record(
        self,
        paths: Sequence[PurePath],
        written: Sequence[WrittenFile],
        statistics: Statistics | None,
    ) -> CommitRecord:
        """What is to be known of the shard, given its files, the rows' own last."""
        *files, rows = (
            (path.as_posix(), file.bytes, file.sha256)
            for path, file in zip(paths, written, strict=True)
        )
        return CommitRecord(
            shard=self._shard,
            files=tuple(File(*each) for each in files),
            rows=RowsFile(*rows),
            records=self.records,
            rejected=self.statuses["rejected"],
            noted=self.statuses["repaired"] + self.statuses["warned"],
            statistics=None if statistics is None else statistics.counted(),
            extras=tuple(sorted(self._extras)),
        )

    def __exit__(self, *exception: object) -> None:
        """Release the file; without `close`, what is in it is worth nothing."""
        with suppress(OSError, ValueError, pa.ArrowException):
            self._writer.close()  # writes the file's end, where a full disk complains again
        self._file.close()

    def _see(self) -> None:
        self._looks += map(_look, self._pictures)
        self._pictures.clear()

    def _flush(self) -> None:
        self._see()
        size = len(self._rows)
        *values, said = zip(*self._rows, strict=True)
        columns: dict[str, Any] = dict(zip(_COLUMNS, values, strict=True))
        columns |= zip(_LOOKS, zip(*self._looks, strict=True), strict=True)
        self.statuses.update(columns["status"])
        labels = columns["labels"]
        ends = pa.array(accumulate(map(len, labels), initial=0), pa.int32())
        flat = pa.array(chain.from_iterable(labels), pa.int32())
        columns["labels"] = pa.ListArray.from_arrays(ends, flat)
        columns["classes"] = pa.ListArray.from_arrays(ends, self._identifiers.take(flat))
        columns["split"] = repeat(self._shard.split, size)
        columns["shard"] = repeat(self._shard.number, size)
        for name in self._fields:
            columns[name] = [known.get(name) for known in said]
        arrays = [_array(columns[field.name], field.type, size) for field in self._schema]
        self._writer.write_table(pa.table(arrays, schema=self._schema))
        self._rows.clear()
        self._looks.clear()


def _look(picture: Pixels | Fingerprint | None) -> tuple[Any, ...]:
    if picture is None:
        return (None,) * len(_LOOKS)
    seen = picture if isinstance(picture, Fingerprint) else fingerprint(picture)
    return seen.phash, seen.brightness, seen.contrast, seen.flat


def _array(values: Sequence[Any] | Iterable[Any] | pa.Array, kind: pa.DataType, size: int) -> Any:
    return values if isinstance(values, pa.Array) else pa.array(values, kind, size=size)
