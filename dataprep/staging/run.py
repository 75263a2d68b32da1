"""``dataprep stage SRC -- COMMAND``: stage, run a command on the copy, and clean at every end.

In a batch script the copies are made on all nodes of the job, by the scheduler's own launcher, and
the command runs once, where the script runs. In a task that a launcher has started, and outside of
any job, the copy is made on this node, and the command runs here.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Self

from dataprep.errors import DataprepError, NoRoomError, StagingError, StoppedError, UsageError
from dataprep.staging.cleaning import clean
from dataprep.staging.directory import StageDirectory, private_name
from dataprep.staging.existing import read_staged
from dataprep.staging.handshake import SECRET
from dataprep.staging.launcher import Answer, answers, launch_environment, launch_words
from dataprep.staging.node_lock import is_named
from dataprep.staging.placement import (
    LOOP,
    Job,
    Placement,
    find_job,
    find_placement,
    require_one_component,
    short_name,
)
from dataprep.staging.plan import find_place
from dataprep.staging.request import StageReporter, StageRequest
from dataprep.staging.stage import stage
from dataprep.system.messages import counted, printable, some_of

# A scheduler's cancel or the end of the time (LSF sends USR2 then), Ctrl-C, a closed terminal.
_STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR2)
_WARNING = signal.SIGUSR1  # Slurm's, some time before the end: for the command, which goes on
_CLEANING_SECONDS = 70.0
_LISTENING_SECONDS = 1.0
_LOOKING_SECONDS = 0.1  # between two looks, at what takes a moment
_USERS = "users"  # in the private directory, see `_using`


def run_on_copy(
    request: StageRequest,
    command: Sequence[str],
    words: Sequence[str],
    reporter: StageReporter,
    *,
    keep: bool,
) -> int:
    """Stage, run ``command`` with ``DATA_DIR`` set, and clean.

    Args:
        words: the command line that says the same as ``request``, from ``stage`` on.
        keep: leave the copies if a signal ends this, for a job that is requeued.

    Returns:
        The exit code of ``command``; 128 and the signal if it was killed by one.

    Raises:
        DataprepError: there is no such command; the copies could not be made.
    """
    if shutil.which(command[0]) is None:
        raise UsageError(f"there is no program {printable(command[0])} to run; check the PATH")
    placement = find_placement()
    job = find_job(os.environ)
    with _Signals() as signals:
        if job is None or placement.step is not None or placement.origin == LOOP:
            return _run_here(placement, request, command, reporter, signals, keep=keep)
        seconds = request.rendezvous_seconds
        return _run_on_nodes(job, command, words, signals, seconds=seconds, keep=keep)


class _Signals:
    """What has come, handed on to the process that works at the moment. A context manager."""

    def __init__(self) -> None:
        self.stopped: int | None = None  # the signal that ends all this
        self._working: subprocess.Popen[str] | None = None
        self._early: list[int] | None = None  # what came while a process was being started
        self._is_command = False  # the process is the user's, not what makes the copies
        self._raising = False
        self._before: dict[int, object] = {}

    def __enter__(self) -> Self:
        for number in (*_STOPPING, _WARNING):
            if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it
                self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # as it was given

    def _receive(self, number: int, _frame: FrameType | None) -> None:
        if number != _WARNING or not self._is_command:
            self.stopped = self.stopped or number
        if self._early is not None:
            self._early.append(number)
        # A terminal tells all its processes by itself.
        elif self._working is not None and not (number == signal.SIGINT and sys.stdin.isatty()):
            self._working.send_signal(number)
        if self._raising:
            self._raising = False  # a second one must not disturb the way out
            self.check()

    def check(self) -> None:
        """Raise `StoppedError` if all this is to end."""
        if self.stopped is not None:
            name = signal.Signals(self.stopped).name
            raise StoppedError(f"stopped by {name} before the command ran", self.stopped)

    @contextmanager
    def raised(self) -> Iterator[None]:
        """What comes while this is open ends it, with `StoppedError`."""
        self.check()
        self._raising = True
        try:
            yield
        finally:
            self._raising = False

    def run(
        self,
        words: Sequence[str],
        environment: Mapping[str, str],
        *,
        hear: Callable[[str], object] | None = None,
    ) -> tuple[int, str]:
        """Run a program, which gets all signals that come; its exit code, and what it printed.

        Args:
            hear: told now and then what it has printed up to now; what it raises ends the program.
                This is no command of the user's then: a warning ends it, and stdin is not its.
        """
        early: list[int] = []
        self._early, self._is_command = early, hear is None
        try:
            self.check()  # what comes from here on is handed on
            process = subprocess.Popen(  # noqa: S603  # the user's command or the site's launcher
                list(words),
                stdin=subprocess.DEVNULL if hear else None,
                stdout=subprocess.PIPE if hear else None,
                text=True,
                env=environment,
            )
            self._working = process
        finally:
            self._early = None
        try:
            for number in early:
                process.send_signal(number)
            out = ""
            while process.returncode is None:
                # Woken up now and then: a signal that comes right before the blocking call,
                # or to another thread, does not interrupt it.
                out = _heard(process, _LISTENING_SECONDS)
                if hear is not None and process.returncode is None:
                    hear(out)
        except StagingError:
            process.terminate()
            _ended(process)
            raise
        finally:
            self._working, self._is_command = None, False
        code = process.returncode
        return code if code >= 0 else 128 - code, out


def _run(command: Sequence[str], place: Path, signals: _Signals) -> int:
    # Nobody writes to the copies, and not all storage has the locks that HDF5 asks for.
    own = {"DATA_DIR": str(place), "HDF5_USE_FILE_LOCKING": "FALSE"}
    code, _ = signals.run(command, {**os.environ, **own})
    return code


def _run_here(
    placement: Placement,
    request: StageRequest,
    command: Sequence[str],
    reporter: StageReporter,
    signals: _Signals,
    *,
    keep: bool,
) -> int:
    place = find_place(request, placement).path
    name = private_name(_USERS, placement.job or "")
    with _using(place, name) as (directory, users):
        try:
            with signals.raised():
                stage(request, reporter)
            directory.check_current()
            return _run(command, place, signals)
        finally:
            if not (keep and signals.stopped):
                with suppress(BlockingIOError):
                    fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    if is_named(directory, name, users):  # else what is there now is another's
                        reporter.line(_clean_here(place, placement.job))


@contextmanager
def _using(place: Path, name: str) -> Iterator[tuple[StageDirectory, int]]:
    """Share the lock of all of this job and node whose command uses the copy: the last cleans.

    Yields:
        The copy's directory, and the descriptor of the lock.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    while True:
        with StageDirectory.make(place) as directory:
            try:
                users = os.open(name, flags, 0o600, dir_fd=directory.private)
            except FileNotFoundError:
                continue  # who was last has cleaned, as below
            try:
                fcntl.flock(users, fcntl.LOCK_SH)
                # A lock that was removed while it was waited for keeps nobody from cleaning.
                if is_named(directory, name, users):
                    yield directory, users
                    return
            finally:
                os.close(users)


def _clean_here(place: Path, job: str | None) -> str:
    try:
        return clean(place, job).describe(place)
    except DataprepError as error:
        return f"cleaning failed: {error}"


def _run_on_nodes(
    job: Job,
    command: Sequence[str],
    words: Sequence[str],
    signals: _Signals,
    *,
    seconds: float,
    keep: bool,
) -> int:
    require_one_component(os.environ)
    program = [sys.executable, "-P", "-m", "dataprep", *words]
    # Known to the copies that are started here, and to no other user of the cluster.
    secret = os.environ.get(SECRET) or secrets.token_hex(32)
    environment = launch_environment(job, secret)
    copying = launch_words(job, [*program, "--launched", "copy"])
    started = partial(_Started, copying[0], job.count or 1, seconds)
    cleaner = None
    if job.origin == "Slurm" and not keep:
        later = launch_words(
            job, [*program, "--clean", "--launched", "clean_later"], together=False
        )
        cleaner = _start_cleaner(later, environment, started(), signals)
    cleaning = launch_words(job, [*program, "--clean", "--launched", "clean"])
    try:
        place = _stage_on_nodes(copying, environment, started(), signals)
        here = short_name(socket.gethostname()) in map(short_name, job.hosts)  # no login node
        if here and not read_staged(place).is_whole:
            raise StagingError(
                f"{printable(str(place))} was removed, replaced or changed since it was staged; "
                "see that no epilog cleans up too early, and run the same command again"
            )
        return _run(command, place, signals)
    finally:
        if cleaner is not None:
            cleaner.send_signal(signal.SIGUSR2)
            _await(cleaner)
        elif not (keep and signals.stopped):
            _await(_start(cleaning, environment))


def _start(words: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[str]:
    """Start what cleans; in a session of its own, where no terminal disturbs it."""
    return subprocess.Popen(  # noqa: S603  # the site's launcher
        list(words),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=environment,
    )


def _start_cleaner(
    words: Sequence[str], environment: Mapping[str, str], started: _Started, signals: _Signals
) -> subprocess.Popen[str]:
    """Start a process a node that cleans as soon as it is told, and see that all wait for that.

    Slurm starts no step any more in a job that is being stopped.
    """
    cleaner = _start(words, environment)
    try:
        with signals.raised():
            out = ""
            while not started.everywhere(out, "ready", is_over=cleaner.returncode is not None):
                out = _heard(cleaner, _LOOKING_SECONDS)
    except BaseException:
        cleaner.terminate()
        _ended(cleaner)
        raise
    return cleaner


class _Started:
    """Whether a process runs on every node, in the time in which nodes wait for each other."""

    def __init__(self, program: str, nodes: int, seconds: float) -> None:
        self.nodes = nodes
        self._program = program
        self._end = time.monotonic() + seconds

    def everywhere(self, out: str, kind: Answer, *, is_over: bool = False) -> bool:
        """Given what they have printed up to now; raises `StagingError` if it takes too long."""
        count = len(answers(out, kind))
        if count >= self.nodes:
            return True
        if not is_over and time.monotonic() < self._end:
            return False
        raise StagingError(
            f"{self._program} did not start a process on every node: {count} of "
            f"{counted(self.nodes, 'node')} answered; see the lines above, and that no other step "
            "of the job has its nodes, or wait longer (--rendezvous_seconds)"
        )


def _heard(process: subprocess.Popen[str], seconds: float) -> str:
    """What it has printed, all of it once it has ended, or up to now if that takes longer."""
    try:
        return process.communicate(timeout=seconds)[0] or ""
    except subprocess.TimeoutExpired as waited:
        out = waited.output or b""  # bytes even where text was asked for
        return out.decode(errors="replace") if isinstance(out, bytes) else out


def _ended(process: subprocess.Popen[str]) -> int:
    """Wait for an end as long as a scheduler may let us; the exit code."""
    _heard(process, _CLEANING_SECONDS)
    if process.returncode is None:
        process.kill()
        process.wait()
    return process.returncode


def _await(process: subprocess.Popen[str]) -> None:
    """Wait until the nodes are clean."""
    if _ended(process):
        sys.stderr.write("dataprep: cleaning failed on a node; see the lines above\n")


def _stage_on_nodes(
    words: Sequence[str], environment: Mapping[str, str], started: _Started, signals: _Signals
) -> Path:
    """Make the copies; returns where they are, the same place on every node."""
    code, out = signals.run(words, environment, hear=lambda out: started.everywhere(out, "begun"))
    signals.check()
    copies = answers(out, "copy")
    if answers(out, "no-room") and not copies:
        raise NoRoomError("a node has too little space, so nothing was copied; see the lines above")
    if code or not copies:
        raise StagingError(f"the copies were not made (exit code {code}); see the lines above")
    if len(copies) < started.nodes:
        raise StagingError(
            f"{len(copies)} of {counted(started.nodes, 'node')} said where the copy is; see the "
            "lines above, and that no option of the launcher leaves out nodes or their output"
        )
    if len(places := sorted(set(copies))) > 1:
        raise StagingError(
            f"the nodes have their copies in different places: {some_of(places)}; choose one "
            "for all (--to)"
        )
    return Path(places[0])
