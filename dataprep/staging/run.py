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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Self

from dataprep.errors import DataprepError, NoRoomError, StagingError, StoppedError, UsageError
from dataprep.staging.cleaning import clean
from dataprep.staging.directory import StageDirectory, private_name
from dataprep.staging.handshake import SECRET
from dataprep.staging.node_lock import is_named
from dataprep.staging.placement import LOOP, Job, Placement, find_job, find_placement, short_name
from dataprep.staging.plan import find_place
from dataprep.staging.request import StageReporter, StageRequest
from dataprep.staging.stage import stage
from dataprep.staging.status import read_staged
from dataprep.system.messages import printable

NO_ROOM = "no room"  # what a launched copier prints in the place of a directory
READY = "ready"  # what a launched cleaner prints once it waits

# A scheduler's cancel or the end of the time (LSF sends USR2 then), Ctrl-C, a closed terminal.
_STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR2)
_WARNING = signal.SIGUSR1  # Slurm's, some time before the end: for the command, which goes on
_CLEANING_SECONDS = 70.0
_LISTENING_SECONDS = 1.0
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
        return _run_on_nodes(job, command, words, signals, keep=keep)


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
        self, words: Sequence[str], *, output: bool = False, **variables: str
    ) -> tuple[int, str]:
        """Run a program, which gets all signals that come; its exit code, and what it printed.

        Args:
            output: it is asked for: this is no command of the user's, and a warning ends it.
        """
        early: list[int] = []
        self._early, self._is_command = early, not output
        try:
            self.check()  # what comes from here on is handed on
            process = subprocess.Popen(  # noqa: S603  # the user's command or the site's launcher
                list(words),
                stdout=subprocess.PIPE if output else None,
                text=True,
                env={**os.environ, **variables},
            )
            self._working = process
        finally:
            self._early = None
        try:
            for number in early:
                process.send_signal(number)
            while True:
                with suppress(subprocess.TimeoutExpired):
                    # Woken up now and then: a signal that comes right before the blocking call,
                    # or to another thread, does not interrupt it.
                    out, _ = process.communicate(timeout=_LISTENING_SECONDS)
                    break
        finally:
            self._working, self._is_command = None, False
        code = process.returncode
        return code if code >= 0 else 128 - code, out or ""


def _run(command: Sequence[str], place: Path, signals: _Signals) -> int:
    # Nobody writes to the copies, and not all storage has the locks that HDF5 asks for.
    code, _ = signals.run(command, DATA_DIR=str(place), HDF5_USE_FILE_LOCKING="FALSE")
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
    job: Job, command: Sequence[str], words: Sequence[str], signals: _Signals, *, keep: bool
) -> int:
    program = [*launcher(job), sys.executable, "-P", "-m", "dataprep", *words]
    # Known to the copies that are started here, and to no other user of the cluster.
    secret = os.environ.get(SECRET) or secrets.token_hex(32)
    cleaner = None
    try:
        if job.origin == "Slurm" and not keep:
            cleaner = _start_cleaner(program, job.count or 1, signals)
        place = _stage_on_nodes(program, secret, signals)
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
            _await(_start([*program, "--clean"], variables={SECRET: secret}))


def launcher(job: Job) -> list[str]:
    """The words that start one process on every node of a job, with all of the node's cores.

    Raises:
        UsageError: the program is not there.
    """
    nodes = str(job.count or 1)
    if job.origin == "Slurm":
        words = ["srun", "--overlap", f"--nodes={nodes}", f"--ntasks={nodes}"]
        words += ["--ntasks-per-node=1", "--cpu-bind=none", "--kill-on-bad-exit=1"]
    elif job.origin == "LSF":
        words = ["blaunch", "-no-shell", "-z", " ".join(job.hosts)]
    else:
        words = ["mpiexec", "-n", nodes]
    if shutil.which(words[0]) is None:
        raise UsageError(
            f"{words[0]}, which starts a process on every node, is not on the PATH; load its "
            "module, or start `dataprep stage` on every node yourself"
        )
    if words[0] == "mpiexec":
        # Open MPI says it in one way; MPICH, Intel MPI and Cray's PALS in another.
        said = subprocess.run(
            ["mpiexec", "--version"],  # noqa: S607  # the site's own
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        ).stdout.lower()
        is_open_mpi = any(name in said for name in ("open mpi", "openmpi", "openrte"))
        # Open MPI hands on only the variables that it is told to.
        own = ["--map-by", "ppr:1:node", "--bind-to", "none", "-x", SECRET]
        words += own if is_open_mpi else ["--ppn", "1"]
    return words


def _start(
    words: Sequence[str], *, output: bool = False, variables: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    """Start what cleans; in a session of its own, where no terminal disturbs it."""
    return subprocess.Popen(  # noqa: S603  # the site's launcher
        list(words),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE if output else None,
        text=True,
        start_new_session=True,
        env={**os.environ, **(variables or {})},
    )


def _start_cleaner(program: Sequence[str], nodes: int, signals: _Signals) -> subprocess.Popen[str]:
    """Start a process a node that cleans as soon as it is told, and see that all wait for that.

    Slurm starts no step any more in a job that is being stopped.
    """
    words = [*program, "--clean", "--launched", "clean"]
    words[words.index("--kill-on-bad-exit=1")] = "--kill-on-bad-exit=0"
    cleaner = _start(words, output=True)
    assert cleaner.stdout is not None  # noqa: S101  # it is a pipe
    try:
        with signals.raised():
            _expect_ready([cleaner.stdout.readline() for _ in range(nodes)])
    except BaseException:
        cleaner.terminate()
        _await(cleaner)
        raise
    return cleaner


def _expect_ready(lines: Sequence[str]) -> None:
    if {line.strip() for line in lines} != {READY}:
        raise StagingError("srun did not start a process on every node; see the lines above")


def _await(cleaner: subprocess.Popen[str]) -> None:
    """Wait until the nodes are clean, as long as a scheduler may let us."""
    try:
        cleaner.communicate(timeout=_CLEANING_SECONDS)
    except subprocess.TimeoutExpired:
        cleaner.kill()
        cleaner.communicate()
    if cleaner.returncode:
        sys.stderr.write("dataprep: cleaning failed on a node; see the lines above\n")


def _stage_on_nodes(program: Sequence[str], secret: str, signals: _Signals) -> Path:
    """Make the copies; returns where they are, the same place on every node."""
    code, out = signals.run([*program, "--launched", "copy"], output=True, **{SECRET: secret})
    signals.check()
    places = sorted(set(out.splitlines()))
    if places == [NO_ROOM]:
        raise NoRoomError("a node has too little space, so nothing was copied; see the lines above")
    if code or not places:
        raise StagingError(f"the copies were not made (exit code {code}); see the lines above")
    if len(places) > 1:
        raise StagingError(
            f"the nodes have their copies in different places: {', '.join(places)}; choose one "
            "for all (--to)"
        )
    return Path(places[0])
