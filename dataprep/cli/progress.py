"""What a person sees while a job runs: a bar on a terminal, a line now and then without one."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

from tqdm import tqdm

from dataprep.build.commit import CommitRecord
from dataprep.build.job import Job
from dataprep.cli.pipes import forget_stdout

_LINE_SECONDS = 30.0
_REDRAW_SECONDS = 0.2


class TerminalReporter:
    """Lines on stdout, progress on stderr; driven by commit records, so right on every engine."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._seconds = _REDRAW_SECONDS if self._terminal else _LINE_SECONDS
        self._drawn = 0.0
        self._bar: tqdm[Any] | None = None
        self._committed = 0
        self._rejected = 0
        self._bytes = 0
        self._started = 0.0
        self._bytes_before = 0

    def line(self, text: str) -> None:
        """Something worth a line."""
        # That nobody reads any more, as in `dataprep … | head`, is no reason to stop a long job.
        try:
            with tqdm.external_write_mode(file=sys.stdout):
                print(text, flush=True)  # noqa: T201  # this is the command line's voice
        except BrokenPipeError:
            forget_stdout()

    def scanning(self, done: int, total: int) -> None:
        """How many directories and archives have been indexed."""
        if self._bar is None:
            self._bar = self._new_bar("index", total, "part", 0)
        self._advance(done - int(self._bar.n))

    def writing(self, job: Job, committed: Sequence[CommitRecord]) -> None:
        """A new phase: these shards of the job are already there."""
        self._rejected = sum(record.rejected for record in committed)
        self._bytes = self._bytes_before = sum(record.total_bytes for record in committed)
        self._started = time.monotonic()
        images = sum(split.images for split in job.splits)
        self._committed = _images(committed)
        self._bar = self._new_bar("write", images, "image", self._committed)

    def progress(self, new: Sequence[CommitRecord], under_way: int) -> None:
        """Shards that were committed since the last call, and images in those that are not."""
        if self._bar is None:
            return
        self._committed += _images(new)
        self._rejected += sum(record.rejected for record in new)
        self._bytes += sum(record.total_bytes for record in new)
        postfix = f"{self._rejected} rejected"
        if written := self._bytes - self._bytes_before:  # known of committed shards only
            rate = written / max(time.monotonic() - self._started, 1e-3)
            postfix = f"{rate / 1e6:.1f} MB/s, {postfix}"
        self._bar.set_postfix_str(postfix, refresh=False)
        # Never backwards: a shard's note is gone a moment before its record is seen.
        self._advance(max(self._committed + under_way - int(self._bar.n), 0))

    def finished(self) -> None:
        """The phase is over, one way or another."""
        if self._bar is not None:
            self._bar.close()  # draws once more
            self._bar = None

    def _advance(self, count: int) -> None:
        # tqdm redraws only when something was counted; here the clock should run meanwhile.
        if self._bar is None:
            return
        self._bar.n += count
        now = time.monotonic()
        if now - self._drawn >= self._seconds:
            self._drawn = now
            self._bar.refresh()

    def _new_bar(self, name: str, total: int, unit: str, initial: int) -> tqdm[Any]:
        self._drawn = time.monotonic()
        return tqdm(
            desc=name,
            total=total,
            initial=initial,
            unit=unit,
            file=sys.stderr if self._terminal else _Lines(),
            dynamic_ncols=self._terminal,
            ncols=None if self._terminal else 0,  # numbers only
            mininterval=0.0 if self._terminal else float("inf"),  # `_advance` decides
            maxinterval=float("inf"),
        )


class _Lines:
    """A stream for tqdm that turns each redrawn bar into a plain line."""

    def write(self, text: str) -> None:
        if line := text.strip():
            sys.stderr.write(line + "\n")

    def flush(self) -> None:
        sys.stderr.flush()


def _images(records: Sequence[CommitRecord]) -> int:
    return sum(record.images for record in records)
