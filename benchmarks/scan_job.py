"""The other program of scan and listing: a data set's command up to the first image it would write.

Prints the seconds of each step, how many parts of the index were made, and how large the index
and the order are.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from dataprep.images import Recipe
from dataprep.jobs.commit import CommitRecord
from dataprep.jobs.job import Job
from dataprep.jobs.prepare import prepare
from dataprep.jobs.request import MaxBad, Request
from dataprep.jobs.workspace import Workspace
from dataprep_pipelines.run import Launcher
from dataprep_pipelines.runners import Engine


class _OrderedError(Exception):
    """Everything is planned; the rest of the job is not wanted."""


class _Stopwatch:
    """A reporter that takes the time of each step, and ends the job before it writes."""

    def __init__(self) -> None:
        self.found = 0.0
        self.scanned = 0.0
        self.parts = 0
        self.images = 0

    def line(self, text: str) -> None:
        """Something worth a line: the first comes when all is found."""
        self.found = self.found or time.perf_counter()
        if text.startswith("index: "):  # it is there, and was checked
            self.finished()

    def scanning(self, done: int, total: int) -> None:  # noqa: ARG002
        """How many parts are to be made; never called if the index is there."""
        self.parts = total

    def finished(self) -> None:
        """The scan is over."""
        self.scanned = time.perf_counter()

    def writing(self, job: Job, committed: Sequence[CommitRecord]) -> None:  # noqa: ARG002
        """In order, and about to write."""
        self.images = sum(split.images for split in job.splits)
        raise _OrderedError

    def progress(self, new: Sequence[CommitRecord], under_way: int) -> None:
        """Never called."""


def main(dataset: str, options: dict[str, str], raw: Path, out: Path, cores: int) -> None:
    """Do it on so many cores, whatever the machine has."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    watch = _Stopwatch()
    request = Request(
        dataset=dataset,
        raw=raw,
        out=out,
        recipe=Recipe(),
        max_bad=MaxBad.parse("0"),
        dataset_options=options,
        splits=("train",),
    )
    start = time.perf_counter()
    try:
        prepare(request, Launcher(Engine(cores)), watch)
    except _OrderedError:
        end = time.perf_counter()
    else:
        sys.exit("there was nothing to write")
    scanned = watch.scanned or watch.found
    steps = {"find": watch.found - start, "scan": scanned - watch.found, "order": end - scanned}
    workspace = Workspace(out)
    sizes = {"index": _size(workspace.index), "order": _size(workspace.order)}
    said = {"images": watch.images, "parts": watch.parts, "steps": steps, "sizes": sizes}
    print(json.dumps(said))


def _size(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


if __name__ == "__main__":
    main(
        sys.argv[1],
        json.loads(sys.argv[2]),
        Path(sys.argv[3]),
        Path(sys.argv[4]),
        int(sys.argv[5]),
    )
