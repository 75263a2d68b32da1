"""Making one shard: read its rows of the deck, check and convert the images, write, commit.

Memory is bounded by the number of images in flight, whatever the size of the shard or of the
data set.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from dataprep.assembly.commit import (
    CommitRecord,
    CommittedFile,
    Noted,
    Rejected,
    commit,
    publish,
    temporary_files,
)
from dataprep.assembly.deck import read_shard
from dataprep.assembly.job import Job
from dataprep.assembly.workspace import storage_error
from dataprep.errors import ImageError
from dataprep.example import Example
from dataprep.images import Prepared, Recipe, prepare
from dataprep.index import Row
from dataprep.plugins import load_dataset, load_sink
from dataprep.sinks import ShardName, ShardWriter, WrittenFile
from dataprep.sources import read_image

Item = TypeVar("Item")
Result = TypeVar("Result")


class ShardStoppedError(Exception):
    """The run was stopped while the shard was being written; nothing of it is left."""


def write_shard(
    job: Job, shard: ShardName, *, pool: Executor | None, window: int, stop: Callable[[], bool]
) -> None:
    """Make and commit one shard; the bytes depend on nothing but the job and the shard.

    Args:
        job: what to build.
        shard: which shard.
        pool: threads that read and convert images; None does it in the calling thread.
        window: how many images may be in flight in the pool.
        stop: asked before every image; True abandons the shard.

    Raises:
        ShardStoppedError: ``stop`` said so.
        SourceError: the raw data cannot be read or has changed since it was indexed.
        SinkError: the shard cannot be written, for example because the disk is full.
    """
    rows = read_shard(job.workspace, shard)
    sink = load_sink(job.sink)
    finals = [job.workspace.out / path for path in sink.paths(shard, job.layout)]
    try:
        with temporary_files(finals) as temporaries:
            writer = sink.open(temporaries)
            try:
                tally = _write_rows(job, rows, writer, pool=pool, window=window, stop=stop)
                written = writer.close()
            except BaseException:
                writer.abandon()
                raise
            if job.lease.lost_now():
                raise ShardStoppedError
            publish(temporaries, finals)
            commit(job.workspace, _record(job, shard, rows, tally, finals, written))
    except OSError as error:
        raise storage_error(error, job.workspace.out, f"writing {shard}") from error


@dataclass(slots=True)
class _Tally:
    classes: Counter[int]
    rejected: list[Rejected]
    noted: list[Noted]


def _write_rows(
    job: Job,
    rows: Sequence[Row],
    writer: ShardWriter,
    *,
    pool: Executor | None,
    window: int,
    stop: Callable[[], bool],
) -> _Tally:
    classes = load_dataset(job.dataset).classes()
    tally = _Tally(Counter(), [], [])

    def convert(row: Row) -> Prepared | ImageError:
        return _prepare_row(job.raw, row, job.recipe)

    for row, result in zip(rows, _map_in_order(pool, convert, rows, window), strict=True):
        if stop():
            raise ShardStoppedError
        if isinstance(result, ImageError):
            reason = str(result)
            tally.rejected.append(Rejected(row.key, row.container, row.offset, row.size, reason))
            continue
        writer.write(_example(row, result, classes[row.class_index], job.recipe))
        tally.classes[row.class_index] += 1
        tally.noted += [Noted(row.key, note.kind, note.text) for note in result.notes]
    return tally


def _prepare_row(raw: Path, row: Row, recipe: Recipe) -> Prepared | ImageError:
    # Only what is wrong with the bytes rejects an image. A file that cannot be read stops the
    # run instead: it may be readable again tomorrow, and a commit record is for ever.
    data = read_image(raw, row)
    try:
        return prepare(data, recipe)
    except ImageError as error:
        return error


def _example(row: Row, image: Prepared, label: tuple[str, str], recipe: Recipe) -> Example:
    synset, name = label
    return Example(
        key=row.key,
        encoded=image.data,
        format=image.format,
        height=image.height,
        width=image.width,
        # The TPU script says RGB and 3 channels of grey JPEGs too: what readers decode to.
        colorspace="Grayscale" if recipe.color == "gray" else "RGB",
        class_index=row.class_index,
        synset=synset,
        class_name=name,
        boxes=row.boxes,
    )


def _map_in_order(
    pool: Executor | None,
    function: Callable[[Item], Result],
    items: Iterable[Item],
    window: int,
) -> Iterator[Result]:
    """``map``, in order, with at most ``window`` calls submitted and not yet consumed."""
    if pool is None:
        yield from map(function, items)
        return
    pending: deque[Future[Result]] = deque()
    try:
        for item in items:
            pending.append(pool.submit(function, item))
            if len(pending) >= window:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        for future in pending:
            future.cancel()


def _record(
    job: Job,
    shard: ShardName,
    rows: Sequence[Row],
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
        records=tally.classes.total(),
        source_bytes=sum(row.size for row in rows),
        classes=dict(sorted(tally.classes.items())),
        rejected=tuple(tally.rejected),
        noted=tuple(tally.noted),
    )
