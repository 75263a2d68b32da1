"""What a call tells of itself while it works, and how a person sees it: a bar, or plain lines."""

from __future__ import annotations

import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from dataprep.system.messages import printable, sized

if TYPE_CHECKING:
    from dataprep.jobs.running.job import Job
    from dataprep_schemas.state import CommitRecord

_TOLD_SECONDS: Final = 0.1  # between two reports of a phase, at least
_STILL_SECONDS: Final = 1.0  # likewise, while nothing changes
_RATE_SECONDS: Final = 1.0  # before that a rate is noise
_LINE_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a call is, or a message of it.

    ``str()`` of it is one line, so that ``progress=print`` is useful.

    Attributes:
        phase: ``index``, ``write``, ``verify``, ``diff`` or ``stage``; empty if it is a message.
        done: how many units are done.
        total: how many there are.
        unit: ``part`` (a directory or an archive), ``image``, ``record`` or ``byte``.
        seconds: since the phase began.
        rate: units a second in this phase; None in its first second, and before anything is done.
        rejected: images that were rejected so far.
        finished: whether the phase is over, one way or another.
        message: a line worth reading.
    """

    phase: str = ""
    done: int = 0
    total: int = 0
    unit: str = ""
    seconds: float = 0.0
    rate: float | None = None
    rejected: int = 0
    finished: bool = False
    message: str | None = None

    def __str__(self) -> str:
        """The message; or e.g. ``write: 25% 320/1,281 images, 214 images/s, 0:05 left``."""
        if self.message is not None:
            return self.message
        share = f"{100 * self.done // self.total}% " if self.total else ""
        if self.unit == "byte":
            text = f"{self.phase}: {share}{sized(self.done)} of {sized(self.total)}"
        else:
            text = f"{self.phase}: {share}{self.done:,}/{self.total:,} {self.unit}s"
        return ", ".join([text, *self.details()])

    def details(self) -> Iterator[str]:
        """How fast, how long still, and how many were rejected."""
        if self.rate is not None:
            rate = f"{self.rate:,.0f} {self.unit}s"
            yield f"{sized(self.rate) if self.unit == 'byte' else rate}/s"
        if self.rate and not self.finished:
            yield f"{_clock((self.total - self.done) / self.rate)} left"
        if self.phase == "write":
            yield f"{self.rejected:,} rejected"


Tell = Callable[[Progress], object]


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class Reporter:
    """Turns what pipelines and staging report into `Progress`, for one call."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._lock = threading.Lock()
        self._now = Progress()
        self._began = self._told = 0.0
        self._before = self._said = self._committed = 0

    def line(self, text: str) -> None:
        """Something worth a line."""
        self._tell(Progress(message=text))

    def begin(self, phase: str, total: int, unit: str, done: int = 0) -> None:
        """A new phase, of which so much is done already; the one before is over."""
        self.finished()
        self._began, self._told = time.monotonic(), 0.0
        self._before, self._said = done, -1
        self._now = Progress(phase, done, total, unit)
        self._say()

    def advance(self, count: int) -> None:
        """So many more units of the phase; from any thread."""
        with self._lock:
            self._say(done=self._now.done + count)

    def finished(self) -> None:
        """The phase is over, one way or another."""
        if self._now.phase:
            self._say(finished=True)
            self._now = Progress()

    def counting(self, phase: str, total: int, count: int) -> None:
        """So many more comparisons; the first ones begin the phase, as often there are none."""
        if self._now.phase != phase:
            self.begin(phase, total, "comparison")
        self.advance(count)

    def scanning(self, done: int, total: int) -> None:
        """How many directories and archives have been indexed."""
        if self._now.phase != "index":
            self.begin("index", total, "part")
        self._say(done=done)

    def writing(self, job: Job, committed: Sequence[CommitRecord]) -> None:
        """A new round of writing: these shards of the job are already there."""
        self._committed = sum(record.images for record in committed)
        self.begin("write", sum(split.images for split in job.splits), "image", self._committed)
        self._now = replace(self._now, rejected=sum(record.rejected for record in committed))

    def progress(self, new: Sequence[CommitRecord], under_way: int) -> None:
        """Shards that were committed since the last call, and images in those that are not."""
        self._committed += sum(record.images for record in new)
        # Never backwards: a shard's note is gone a moment before its record is seen.
        done = max(self._committed + under_way, self._now.done)
        rejected = self._now.rejected + sum(record.rejected for record in new)
        self._say(done=done, rejected=rejected)

    def copying(self, files: int, total: int) -> None:
        """So many files and bytes are about to be copied on this node."""
        if files:
            self.begin("stage", total, "byte")

    def _say(self, **changes: Any) -> None:
        self._now = replace(self._now, **changes)
        now = time.monotonic()
        least = _STILL_SECONDS if self._now.done == self._said else _TOLD_SECONDS
        if not self._now.finished and now - self._told < least:
            return
        self._told, self._said, seconds = now, self._now.done, now - self._began
        rate = None
        if seconds >= _RATE_SECONDS and self._now.done > self._before:
            rate = (self._now.done - self._before) / seconds
        self._now = replace(self._now, seconds=seconds, rate=rate)
        self._tell(self._now)


class Display:
    """Messages on stdout; progress on stderr: a bar on a terminal or in a notebook, else lines.

    A bar is drawn when something is told, which is often; a line comes every ten seconds.

    Args:
        quiet_stdout: whether messages go to stderr too, because stdout is for a program.
    """

    def __init__(self, *, quiet_stdout: bool = False) -> None:
        self._messages = sys.stderr if quiet_stdout else sys.stdout
        self._bars = has_bars()
        self._lock = threading.RLock()
        self._latest: Progress | None = None  # of the phase that is shown
        self._said = 0.0
        self._bar: Any = None

    def __call__(self, progress: Progress) -> None:
        """Show it; from any thread."""
        with self._lock:
            if progress.message is not None:
                self._print(progress.message)
                return
            if self._latest is None or self._latest.phase != progress.phase:
                self._said = time.monotonic()
                self._bar = _new_bar(progress) if self._bars else None
            self._latest = None if progress.finished else progress
            if self._bar is not None:
                self._bar.n = progress.done
                self._bar.set_postfix_str(", ".join(progress.details()))
                if progress.finished:
                    self._bar.close()
            elif progress.finished or time.monotonic() - self._said >= _LINE_SECONDS:
                self._said = time.monotonic()
                _line(str(progress))

    def close(self) -> None:
        """Nothing more comes."""
        if self._latest is not None:
            self(replace(self._latest, finished=True))

    def _print(self, text: str) -> None:
        # That nobody reads any more, as in `dataprep … | head`, is no reason to stop a long job.
        tqdm = _tqdm("tqdm").tqdm
        _lock_threads_only(tqdm)
        try:
            with tqdm.external_write_mode(file=self._messages):
                print(printable(text), file=self._messages, flush=True)  # its voice
        except BrokenPipeError:
            forget_stdout()
        except OSError as error:  # a full disk of the log's is none either
            forget_stdout()
            _line(f"dataprep: stdout cannot be written: {error.strerror or error}")


def _line(text: str) -> None:
    with suppress(OSError):  # progress is worth no failure
        print(printable(text), file=sys.stderr, flush=True)  # noqa: T201  # its voice


def _tqdm(module: str) -> Any:
    """Imported when used; it ships no types, and users' checkers are not to ask for any."""
    return import_module(module)


def _lock_threads_only(bars: Any) -> None:
    """Give tqdm a lock of threads: its own is, since Python 3.14, a semaphore that may leak."""
    if not hasattr(bars, "_lock"):
        bars.set_lock(threading.RLock())


def _new_bar(progress: Progress) -> Any:
    """A bar whose rate is ours: tqdm's own is nonsense in the first moments, and then jumps."""
    with warnings.catch_warnings():
        # A notebook without ipywidgets gets text.
        warnings.simplefilter("ignore", _tqdm("tqdm").TqdmWarning)
        tqdm = _tqdm("tqdm.auto").tqdm

    _lock_threads_only(tqdm)
    return tqdm(
        desc=progress.phase,
        total=progress.total,
        initial=progress.done,
        unit_scale=progress.unit == "byte",
        file=sys.stderr,
        dynamic_ncols=True,
        bar_format="{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} [{elapsed}{postfix}]",
    )


def has_bars() -> bool:
    """Whether somebody looks: on a terminal or in a notebook."""
    ipython = sys.modules.get("IPython")  # other libraries load it, and even its kernel's package
    in_notebook = ipython is not None and hasattr(ipython.get_ipython(), "kernel")
    return in_notebook or (sys.stderr is not None and sys.stderr.isatty())


@contextmanager
def told(progress: Tell | None, *, messages: bool = True) -> Iterator[Reporter]:
    """A reporter that tells ``progress``, to the end; by default a `Display`, if somebody looks."""
    display = Display() if progress is None and has_bars() else None
    tell = progress or display or (lambda _: None)
    reporter = Reporter(tell if messages else lambda it: it.message is None and tell(it))
    try:
        yield reporter
    finally:
        reporter.finished()
        if display is not None:
            display.close()


def forget_stdout() -> None:
    """Send whatever is printed from now on nowhere, so that no later flush fails."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
