"""Files that are made once a split, from its finished shards: a master file, a mean image."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from dataprep.build.build_directory import building, check_written
from dataprep.build.commit import CommitRecord, CommittedFile, publish, temporary_files
from dataprep.build.contents import merged_statistics
from dataprep.build.job import Job, SplitJob
from dataprep.sinks import FinishedShard


def make_split_files(
    job: Job, split: SplitJob, records: Sequence[CommitRecord]
) -> list[CommittedFile]:
    """Write them anew, to the same bytes, from the commit records and the shards themselves.

    Raises:
        SinkError: they cannot be written.
    """
    output, out = job.output, job.workspace.out
    sink = output.load_sink()
    names = sink.split_paths(split.name, split.shards, output.layout)
    if not names:
        return []
    finals = [out / name for name in names]
    shards = [_finished(out, record) for record in records]
    statistics = merged_statistics(records)
    with temporary_files(finals) as temporaries:
        with building(temporaries, output) as places:
            written = sink.finish_split(places.paths, output.info, shards, statistics)
            check_written(sink, places.paths, written)
            places.deliver(written)
        publish(temporaries, finals)
    return [
        CommittedFile(str(name), file.bytes, file.sha256)
        for name, file in zip(names, written, strict=True)
    ]


def _finished(out: Path, record: CommitRecord) -> FinishedShard:
    return FinishedShard(
        paths=tuple(out / file.path for file in record.files),
        names=tuple(PurePosixPath(file.path) for file in record.files),
        records=record.records,
    )
