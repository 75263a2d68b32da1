"""What a run did below a directory: every change of a name or of bytes, every flush, in order.

Before and after each call that can change or flush something, all of the directory is looked at, so
what a library in C wrote since is there, too. Files are known by their inodes, which are kept open
so that no number is given twice.
"""

from __future__ import annotations

import io
import itertools
import os
import secrets
import stat
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from dataprep import plugins
from dataprep.jobs.output import lock
from dataprep.staging import copying
from dataprep.system import durable_files
from dataprep_pipelines.runners import Round
from dataprep_pipelines.runners.local import LocalEngine, work_queue

Entry = tuple[int, str]
"""A name: the inode of its directory, and its own part."""

Names = dict[Entry, int]
"""What every name leads to."""

CHANGES = (
    *("mkdir", "rmdir", "remove", "unlink", "rename", "replace", "link", "symlink"),
    *("truncate", "ftruncate", "open", "pwrite", "writev", "utime", "posix_fallocate"),
)
MOST_ALONE = 5
"""Small files that `dataprep stage` flushes one by one here: more than a data set of two shards."""

FLUSHES = ("fsync", "fdatasync")
_REAL: dict[str, Callable[..., Any]] = {name: getattr(os, name) for name in (*CHANGES, *FLUSHES)}
_OPEN = io.open


@dataclass(frozen=True, slots=True)
class Change:
    """Names that change at once; None: the name is gone."""

    text: str
    entries: Mapping[Entry, int | None]


@dataclass(frozen=True, slots=True)
class Write:
    """The new bytes of a file, all of them."""

    text: str
    inode: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Flush:
    """A file or a directory is flushed to the disk."""

    text: str
    inode: int


Operation = Change | Write | Flush


@dataclass(slots=True)
class Recording:
    """A run's operations.

    Attributes:
        root: inode of the directory.
        names: before the run; likewise ``data``, which is None for directories.
        operations: in order.
        modified: when each file was changed last.
    """

    root: int
    names: Names
    data: dict[int, bytes | None]
    operations: list[Operation] = field(default_factory=list)
    modified: dict[int, int] = field(default_factory=dict)


class _Recorder:
    def __init__(self, root: Path) -> None:
        self._root = root
        self.lock = threading.RLock()
        self._kept: dict[int, int] = {}  # descriptors by inode
        self.names, self.data, modified = self._look()
        names, data = dict(self.names), dict(self.data)
        self.recording = Recording(root.stat().st_ino, names, data, modified=modified)

    def observe(self, flushed: int | None = None, *, all_flushed: bool = False) -> None:
        """Note what is different, and then that something, or all there is, was flushed."""
        with self.lock:
            names, data, modified = self._look()
            text = _paths(self.recording.root, {**self.names, **names})
            operations = self.recording.operations
            for change in _changes(self.names, names):
                operations.append(Change(_describe(change, text, self.data), change))
            for inode, content in data.items():
                if content is not None and content != self.data.get(inode, b""):
                    operations.append(Write(f"write {text[inode]}", inode, content))
            self.recording.modified |= modified
            self.names, self.data = names, data
            of: Iterable[int | None] = data if all_flushed else [flushed]
            for each in of:
                if each in text:
                    operations.append(Flush(f"flush {text[each]}", each))

    def _look(self) -> tuple[Names, dict[int, bytes | None], dict[int, int]]:
        names: Names = {}
        data: dict[int, bytes | None] = {self._root.stat().st_ino: None}
        modified = {}
        todo = [(str(self._root), self._root.stat().st_ino)]
        for path, inode in todo:
            for found in sorted(os.scandir(path), key=lambda found: found.name):
                status = found.stat(follow_symlinks=False)
                names[inode, found.name] = status.st_ino
                if status.st_ino not in self._kept:
                    self._kept[status.st_ino] = _REAL["open"](found.path, os.O_RDONLY)
                if stat.S_ISDIR(status.st_mode):
                    data[status.st_ino] = None
                    todo.append((found.path, status.st_ino))
                elif status.st_ino not in data:
                    size = os.fstat(self._kept[status.st_ino]).st_size
                    data[status.st_ino] = os.pread(self._kept[status.st_ino], size, 0)
                    modified[status.st_ino] = status.st_mtime_ns
        return names, data, modified

    def close(self) -> None:
        for descriptor in self._kept.values():
            os.close(descriptor)


def _changes(before: Names, now: Names) -> Iterator[dict[Entry, int | None]]:
    """What happened between two looks; each renaming and the like is one."""
    known = set(before.values())
    gone = {inode: entry for entry, inode in before.items() if entry not in now}
    for entry, inode in now.items():
        if inode not in known:  # made; directories come before what is in them
            yield {entry: inode}
    for entry, inode in now.items():
        if inode in known and before.get(entry) != inode:
            old = gone.pop(inode, None)
            yield {entry: inode} if old is None else {old: None, entry: inode}
    for entry in reversed([*before]):  # what is in a directory goes before it
        if entry in gone.values():
            yield {entry: None}


def _paths(root: int, names: Names) -> dict[int, str]:
    found = {root: "."}
    for (parent, name), inode in names.items():
        found.setdefault(inode, f"{found.get(parent, '?')}/{name}".removeprefix("./"))
    return found


def _describe(
    entries: Mapping[Entry, int | None], text: Mapping[int, str], known: Mapping[int, object]
) -> str:
    paths = [f"{text[parent]}/{name}".removeprefix("./") for parent, name in entries]
    inode = [*entries.values()][-1]
    if len(paths) > 1:
        return f"rename {paths[0]} to {paths[1]}"
    return f"{'remove' if inode is None else 'link' if inode in known else 'make'} {paths[0]}"


def _run_here(_: LocalEngine, task: Round) -> None:
    with work_queue(task.elements) as queue:
        task.work.run(queue)
    task.watch()


@contextmanager
def quick() -> Iterator[pytest.MonkeyPatch]:
    """Runs in this thread, without Beam's; and who waits for a lock does not take long."""
    clock = itertools.count()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalEngine, "run", _run_here)

        class Clock:
            monotonic = staticmethod(lambda: float(next(clock)) / 1000)
            sleep = staticmethod(lambda seconds: [next(clock) for _ in range(int(seconds * 1000))])

        patch.setattr(lock, "time", Clock)
        patch.setattr("dataprep.staging.copier.default_streams", lambda: 1)
        patch.setattr(copying, "_FEW", MOST_ALONE)
        # What plugins there are takes as long to find out as the rest of a command.
        patch.setattr("dataprep.cli.entry_points", cache(entry_points))
        patch.setattr(plugins, "installed", cache(plugins.installed))
        yield patch


@contextmanager
def recorded(root: Path) -> Iterator[Recording]:
    """Everything that is done below ``root`` meanwhile, by a process that will be dead then."""
    recorder = _Recorder(root)
    tokens = itertools.count()

    def watched(name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            with recorder.lock:  # by one thread at a time
                recorder.observe()
                try:
                    return _REAL[name](*arguments, **options)
                finally:
                    inode = os.fstat(arguments[0]).st_ino if name in FLUSHES else None
                    recorder.observe(flushed=inode)

        return call

    def opened(*arguments: Any, **options: Any) -> Any:
        with recorder.lock:
            recorder.observe()
            try:
                return _OPEN(*arguments, **options)
            finally:
                recorder.observe()

    class System:
        def syncfs(self, _: int) -> int:
            recorder.observe(all_flushed=True)
            return 0

    with ExitStack() as stack:
        stack.callback(recorder.close)
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        for name in _REAL:
            patch.setattr(os, name, watched(name))
        patch.setattr(io, "open", opened)
        patch.setattr(durable_files, "_LIBC", System())
        patch.setattr(secrets, "token_hex", lambda size=32: f"{next(tokens):0{2 * size}x}")
        patch.setattr(lock, "_look_up", lambda _: (b"S", "another"))  # another time's process
        yield recorder.recording
        recorder.observe()
