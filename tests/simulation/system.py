"""Hosts, processes, clocks and a file system that exist only in memory, and in virtual time.

Every process of the simulation is a thread, of which exactly one runs: the one that has the baton.
At each operation it goes to sleep for the time that the operation takes, and whoever wakes next has
the baton. What differs between two schedules is drawn from one seed: how long everything takes, and
which processes are stopped, killed or paused with their host at which of their operations.
"""

from __future__ import annotations

import errno
import heapq
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from random import Random
from types import SimpleNamespace
from typing import Any, NoReturn, Self

_THREADS = ThreadPoolExecutor(4000)  # used again, since starting one is slow
LAG = (0.0, 3.0, 60.0)  # for how long names may be cached, one a schedule; 60 s: acdirmax


class Killed(BaseException):
    """Ends the thread of a process that is no more; no handler of errors takes it for one."""


class Host:
    """A machine: its clock, and what its mount remembers of names."""

    def __init__(self, name: str, random: Random) -> None:
        self.name = name
        self.offset = random.uniform(0, 1e6)
        self.rate = 1 + random.uniform(-5e-4, 5e-4)  # as fast as NTP may slew it
        self.names: dict[str, tuple[File | None, float]] = {}
        self.paused_until = 0.0


class Process:
    """A process; it may have several tasks."""

    def __init__(self, number: int, host: Host, name: str) -> None:
        self.number, self.host, self.name = number, host, name
        self.dead = self.ended = False
        self.ghost = False  # what one that was killed had asked for
        self.operations = 0
        self.stopped_until = 0.0
        self.faults: dict[int, tuple[str, float]] = {}
        self.longest = 0.0  # that it was stopped
        self.known: dict[Any, Any] = {}  # the module's `_KNOWN`
        self.error: BaseException | None = None


class Task:
    """What the scheduler wakes: a thread that waits for the baton."""

    def __init__(self, process: Process, work: Callable[[], Any], system: System) -> None:
        self.process = process
        self.done = False
        self.baton = threading.Lock()
        self.baton.acquire()

        def run() -> None:
            self.baton.acquire()
            try:
                system.check()
                work()
            except Killed:
                pass
            except BaseException as error:  # noqa: BLE001  # told as a finding
                process.error = process.error or error
            self.done = True
            system.leave()

        _THREADS.submit(run)


class File:
    """An inode on the server."""

    def __init__(self, now: float, maker: Process) -> None:
        self.data = b""
        self.modified = self.changed = now
        self.links = 1
        self.maker = maker
        self.touched = now  # by the simulation's clock
        self.longest = 0.0  # between two touches, but for what the server was away


class System:
    """One schedule."""

    def __init__(self, seed: int, *, trace: bool = False) -> None:
        self.random = Random(seed)
        self.now = 0.0
        self.queue: list[tuple[float, int, Task]] = []
        self.turns = 0
        self.current: Task
        self.files: dict[str, File] = {}
        self.main = threading.Lock()
        self.main.acquire()
        self.trace: list[str] | None = [] if trace else None
        self.processes: dict[int, Process] = {}
        self.server_offset = self.random.uniform(1e9, 1e9 + 1e6)
        self.lag = self.random.choice(LAG)
        self.slow = self.random.choice((0.0, 0.0, 0.01, 0.1))
        self.errors = self.random.choice((0.0, 0.0, 0.005, 0.03))
        self.changing: Callable[[str, str, File | None, File | None], None] = lambda *_: None
        self.died: Callable[[Process], None] = lambda _: None
        self.horizon = 600.0
        # For a while the server may answer nobody.
        away = self.random.uniform(0, 60)
        self.away = (away, away + self.random.choice((0, 0, 0, 0, 20, 60)))

    # --- the scheduler ---

    def start(self, host: Host, name: str, work: Callable[[], Any], after: float = 0.0) -> Process:
        """A process that begins to do something."""
        process = Process(1000 + len(self.processes), host, name)
        self.processes[process.number] = process

        def whole() -> None:
            try:
                work()
            finally:
                process.ended = self.now <= self.horizon  # and with it, its daemon threads

        self.spawn(process, whole, after)
        return process

    def spawn(self, process: Process, work: Callable[[], Any], after: float = 0.0) -> Task:
        """One more task of a process."""
        task = Task(process, work, self)
        self._queue(task, after)
        return task

    def _queue(self, task: Task, seconds: float) -> None:
        self.turns += 1
        heapq.heappush(self.queue, (self.now + seconds, self.turns, task))

    def run(self) -> None:
        """Until everybody has ended."""
        if self._next(None):
            self.main.acquire()

    def leave(self) -> None:
        """The current task has ended."""
        self._next(None)

    def _next(self, task: Task | None) -> bool:
        """Hand the baton to whoever wakes next; whether that is not the task itself."""
        while self.queue:
            when, _, following = heapq.heappop(self.queue)
            process = following.process
            stopped_until = max(process.stopped_until, process.host.paused_until)
            if stopped_until > when and not process.dead:
                self.turns += 1
                heapq.heappush(self.queue, (stopped_until, self.turns, following))
                continue
            self.now = max(when, self.now)
            self.current = following
            if following is task:
                return False
            following.baton.release()
            return True
        self.main.release()
        return True

    def sleep(self, seconds: float) -> None:
        """Let others go on."""
        task = self.current
        self._queue(task, seconds)
        if self._next(task):
            task.baton.acquire()
        self.check()

    def check(self) -> None:
        """Whether the current process is still there."""
        process = self.current.process
        if process.dead or process.ended or self.now > self.horizon:
            raise Killed

    def log(self, what: str) -> None:
        """A line of the trace."""
        if self.trace is not None:
            process = self.current.process
            self.trace.append(f"{self.now:10.4f} {process.host.name} {process.name:<14} {what}")

    # --- operations ---

    def request(self, what: str, effect: Callable[[], Any]) -> Any:
        """What a process asks the server, and the answer; here it may be stopped, or end."""
        self.check()
        process = self.current.process
        process.operations += 1
        fault, seconds = process.faults.pop(process.operations, ("", 0.0))
        late = fault.endswith("late")  # when the server has it already, else before that
        if fault == "kill-underway":
            # Its last request is still on its way to the server.
            ghost = Process(process.number, process.host, f"{process.name}'s last")
            ghost.ghost = True
            self.spawn(ghost, lambda: unseen(effect), min(seconds, 4))
        if fault and not late:
            self._befall(fault, seconds)
        random = self.random
        draw = random.random()
        self.sleep(random.uniform(0, 4) if draw < self.slow else random.expovariate(500))
        if self.away[0] <= self.now < self.away[1]:
            self.sleep(self.away[1] - self.now)
        draw = random.random()
        if draw < self.errors:
            if draw < self.errors / 2:
                unseen(effect)  # done, but the answer was lost
            self.log(f"{what}: EIO")
            raise OSError(errno.EIO, "simulated")
        try:
            answer = effect()
            self.log(what)
        except OSError as error:
            self.log(f"{what}: {errno.errorcode[error.errno or 0]}")
            raise
        if late:
            self._befall(fault, seconds)
        elif self.slow and draw > 1 - self.slow / 4:
            self.sleep(random.uniform(0, 2))  # the answer is slow
        return answer

    def _befall(self, fault: str, seconds: float) -> None:
        process = self.current.process
        self.log(f"--- {fault} {seconds:.1f}")
        if fault.startswith("kill"):
            process.dead = True
            self.died(process)
            raise Killed
        if fault.startswith("pause"):
            for other in self.processes.values():
                if other.host is process.host:
                    other.longest = max(other.longest, seconds)
            process.host.offset -= seconds * process.host.rate  # CLOCK_MONOTONIC stands still
            process.host.paused_until = self.now + seconds
        else:
            process.stopped_until = self.now + seconds
        process.longest = max(process.longest, seconds)
        self.sleep(0)

    def since(self, moment: float) -> float:
        """Seconds in which the server was there."""
        overlap = min(self.now, self.away[1]) - max(moment, self.away[0])
        return self.now - moment - max(0.0, overlap)

    def monotonic(self) -> float:
        """The current host's clock."""
        host = self.current.process.host
        return host.offset + self.now * host.rate

    def stamp(self) -> float:
        """The server's clock."""
        return self.server_offset + self.now

    def look_up(self, path: str) -> File | None:
        """What the current host's mount holds for the file of that name; ESTALE included."""
        host = self.current.process.host
        cached = host.names.get(path)
        if cached is not None and cached[1] > self.now:
            file = cached[0]
            if file is None or file.links:
                return file
            if self.random.random() < 0.3:
                del host.names[path]
                raise OSError(errno.ESTALE, "simulated")
        file = self.files.get(path)
        host.names[path] = file, self.now + self.random.uniform(0, self.lag)
        return file

    def change(self, what: str, path: str, file: File | None) -> None:
        """Put another file at a name, or none."""
        before = self.files.get(path)
        self.changing(what, path, before, file)
        if before is not None and before is not file:
            before.links -= 1
        if file is None:
            self.files.pop(path, None)
        else:
            self.files[path] = file
        self.forget(path.rpartition("/")[0])

    def forget(self, directory: str) -> None:
        """The current host finds out by a directory's attributes, which come with some answers."""
        names = self.current.process.host.names
        for name in [name for name in names if name.rpartition("/")[0] == directory]:
            del names[name]


def unseen(effect: Callable[[], Any]) -> None:
    """What is done, although its answer is never seen."""
    with suppress(OSError):
        effect()


SYSTEM: System  # the one that runs


def missing(path: object) -> NoReturn:
    raise FileNotFoundError(errno.ENOENT, "simulated", str(path))


class Handle:
    """An open file. What is written is on the server when it is closed, as on NFS."""

    def __init__(self, path: Path, file: File) -> None:
        self.path, self.file = path, file
        self.status = SimpleNamespace(
            st_mtime=file.modified,
            st_mtime_ns=int(file.modified * 1e9),
            st_ctime_ns=int(file.changed * 1e9),
        )
        self.pending = b""

    def fileno(self) -> Handle:
        return self

    def read(self, most: int = -1) -> bytes:
        def effect() -> bytes:
            if not self.file.links and SYSTEM.random.random() < 0.5:
                raise OSError(errno.ESTALE, "simulated")
            return self.file.data if most < 0 else self.file.data[:most]

        return SYSTEM.request(f"read {self.path.name}", effect)  # type: ignore[no-any-return]

    def write(self, data: bytes | str) -> None:
        self.pending += data.encode() if isinstance(data, str) else data

    def flush(self) -> None:
        pass

    def close(self) -> None:
        if self.pending:

            def effect() -> None:
                self.file.data, self.pending = self.pending, b""
                self.file.modified = self.file.changed = SYSTEM.stamp()

            SYSTEM.request(f"write {self.path.name}", effect)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Path(PurePosixPath):
    """Of the simulated file system."""

    __slots__ = ()

    def open(self, mode: str = "r", buffering: int = -1) -> Handle:
        def effect() -> Handle:
            path, system = str(self), SYSTEM
            if "x" in mode:
                if path in system.files:
                    raise FileExistsError(errno.EEXIST, "simulated", path)
                file = File(system.stamp(), system.current.process)
                file.touched = system.now
                system.change("create", path, file)
                return Handle(self, file)
            found = system.look_up(path)
            return missing(self) if found is None else Handle(self, found)

        handle: Handle = SYSTEM.request(f"open {self.name} {mode}", effect)
        return handle

    def unlink(self, missing_ok: bool = False) -> None:
        def effect() -> None:
            if str(self) not in SYSTEM.files:
                missing(self)
            SYSTEM.change("unlink", str(self), None)

        try:
            SYSTEM.request(f"unlink {self.name}", effect)
        except FileNotFoundError:
            if not missing_ok:
                raise

    def replace(self, target: Path) -> Path:
        def effect() -> None:
            file = SYSTEM.files.get(str(self)) or missing(self)
            SYSTEM.change("rename", str(target), file)
            SYSTEM.files.pop(str(self))
            file.changed = SYSTEM.stamp()

        SYSTEM.request(f"rename {self.name} {target.name}", effect)
        return target

    def exists(self) -> bool:
        try:
            self.stat()
        except FileNotFoundError:
            return False
        return True

    is_file = exists

    def stat(self) -> Any:
        def effect() -> Any:
            file = SYSTEM.look_up(str(self)) or missing(self)
            return SimpleNamespace(st_size=len(file.data), st_mode=0o100644)

        return SYSTEM.request(f"stat {self.name}", effect)

    def read_bytes(self) -> bytes:
        with self.open("rb") as file:
            return file.read()

    def write_text(self, text: str) -> None:
        self.unlink(missing_ok=True)  # as a file that is cut to nothing
        with self.open("xb") as file:
            file.write(text)

    def mkdir(self, parents: bool = False, exist_ok: bool = False) -> None:
        """Directories are taken to be there."""

    def iterdir(self) -> Iterator[Path]:
        return self.glob("*")

    def glob(self, pattern: str) -> Iterator[Path]:
        start = f"{self}/"

        def effect() -> list[str]:
            SYSTEM.forget(str(self))  # opening a directory asks for them
            names = [name[len(start) :] for name in SYSTEM.files if name.startswith(start)]
            return [name for name in names if "/" not in name and fnmatchcase(name, pattern)]

        found: list[str] = SYSTEM.request(f"list {self.name} {pattern}", effect)
        return iter([self / name for name in found])


class Event:
    """Of one process."""

    def __init__(self) -> None:
        self._set = False

    def set(self) -> None:
        self._set = True

    def wait(self, seconds: float) -> bool:
        until = SYSTEM.monotonic() + seconds
        while not self._set and (left := until - SYSTEM.monotonic()) > 0:
            SYSTEM.sleep(min(left, 1.0) + 1e-6)
        return self._set


class Thread:
    """Of one process."""

    def __init__(self, target: Callable[[], None], name: str, daemon: bool) -> None:
        self._target = target

    def start(self) -> None:
        self._task = SYSTEM.spawn(SYSTEM.current.process, self._target)

    def join(self, timeout: float) -> None:
        until = SYSTEM.now + timeout
        while not self._task.done and SYSTEM.now < until:
            SYSTEM.sleep(0.5)


def _utime(handle: Handle) -> None:
    def effect() -> None:
        file = handle.file
        if not file.links:
            raise OSError(errno.ESTALE, "simulated")
        SYSTEM.changing("touch", str(handle.path), file, file)
        file.modified = file.changed = SYSTEM.stamp()
        file.longest = max(file.longest, SYSTEM.since(file.touched))
        file.touched = SYSTEM.now

    SYSTEM.request(f"touch {handle.path.name}", effect)


def _kill(number: int, signal: int) -> None:
    found = SYSTEM.processes[number]
    if found.dead or found.ended:
        raise ProcessLookupError


def _link(source: Path, target: Path) -> None:
    def effect() -> None:
        if str(target) in SYSTEM.files:
            raise FileExistsError(errno.EEXIST, "simulated")
        file = SYSTEM.files.get(str(source)) or missing(source)
        SYSTEM.change("link", str(target), file)
        file.links += 1

    SYSTEM.request(f"link {target.name}", effect)


class Known(dict[Any, Any]):
    """What each process keeps of leases for itself."""

    def __contains__(self, key: object) -> bool:
        return key in SYSTEM.current.process.known

    def __getitem__(self, key: Any) -> Any:
        return SYSTEM.current.process.known[key]

    def setdefault(self, key: Any, value: Any = None) -> Any:
        return SYSTEM.current.process.known.setdefault(key, value)


OS = SimpleNamespace(
    fstat=lambda handle: handle.status,
    utime=_utime,
    fsync=lambda handle: handle.close(),
    link=_link,
    kill=_kill,
    getpid=lambda: SYSTEM.current.process.number,
)
TIME = SimpleNamespace(monotonic=lambda: SYSTEM.monotonic(), sleep=lambda s: SYSTEM.sleep(s))
SOCKET = SimpleNamespace(gethostname=lambda: SYSTEM.current.process.host.name)
THREADING = SimpleNamespace(Event=Event, Thread=Thread)
SECRETS = SimpleNamespace(
    token_hex=lambda n: f"{SYSTEM.random.getrandbits(8 * n):0{2 * n}x}",
    randbelow=lambda n: SYSTEM.random.randrange(n),
)


@contextmanager
def running(system: System) -> Iterator[None]:
    """This system is the one that runs."""
    global SYSTEM  # what stands for `os` and `time` is global, too
    SYSTEM = system
    yield
