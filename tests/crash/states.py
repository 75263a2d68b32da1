"""What can be on the disk after a crash: see docs/reliability.md for what is legal, and why."""

from __future__ import annotations

import os
import re
import shutil
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.crash.recorder import Change, Entry, Flush, Names, Recording, Write

PAGE = 4096
SECTOR = 512
APART = 10
"""Of the moments at which one thing may be lost, one of so many is tried."""
_MANY = 40  # states

Kind = Literal["kill", "power", "single"]
"""By a signal; by a power cut that takes all that may be lost, or one thing of it."""

Tree = Mapping[str, tuple[bytes, int] | None]
"""Bytes and time of every file by its path; None: a directory."""


@dataclass(frozen=True, slots=True)
class State:
    """One state that a crash may leave.

    Attributes:
        number: among those of its recording, always the same.
        kind: of crash.
        text: after which operation, and what was lost.
        ended: whether the run had returned before.
        tree: what is there.
        lost: the one thing that was lost, or lasted; empty if it is all that may be.
    """

    number: int
    kind: Kind
    text: str
    ended: bool
    tree: Tree
    lost: str = ""

    def make(self, root: Path) -> None:
        """Put it into a directory, whatever is there."""
        shutil.rmtree(root)
        root.mkdir()
        for path, content in self.tree.items():
            if content is None:
                (root / path).mkdir()
            else:
                (root / path).write_bytes(content[0])
                os.utime(root / path, ns=(content[1], content[1]))


def crash_states(recording: Recording) -> list[State]:
    """Every distinct one, in the order of the operations."""
    states: dict[object, State] = {}
    for kind, text, lost, ended, names, data in _all(recording):
        tree = _tree(recording, names, data)
        # What is under a temporary name is nobody's, and only deleted, whatever is in it.
        key = (
            ended,
            *(
                (_plain(path), tree[path] and (_hidden(path) or tree[path]))
                for path in sorted(tree)
            ),
        )
        if key not in states:
            states[key] = State(len(states), kind, text, ended, tree, lost)
    return list(states.values())


def spread(states: Iterable[State]) -> list[State]:
    """All but those in which the same is lost alone a few operations earlier or later.

    Of these there are as many as operations times what they do. The first and the last of each is
    here, and one of ten between them.
    """
    chosen: list[State] = []
    alone = defaultdict[str, list[State]](list)
    for state in states:
        (alone[state.lost] if state.kind == "single" else chosen).append(state)
    for same in alone.values():
        chosen += [*same[:-1:APART], same[-1]]
    return sorted(chosen, key=lambda state: state.number)


def sampled(states: Iterable[State]) -> list[State]:
    """Where there are many of those, one of three; the others are tried at night."""
    some = spread(states)
    return some if len(some) < _MANY else some[::3]


def _all(
    recording: Recording,
) -> Iterator[tuple[Kind, str, str, bool, Names, Mapping[int, bytes | None]]]:
    """Kind, description, what alone was lost, whether the run had ended, names and bytes."""
    disk = _Disk(recording)
    yield "kill", "before anything", "", False, disk.names(), disk.data
    operations = recording.operations
    for number, operation in enumerate(operations):
        ended = number == len(operations) - 1
        after = f"after operation {number}, {operation.text}"
        if isinstance(operation, Write):
            before = disk.data[operation.inode] or b""
            torn = _torn(before, operation.data)
            yield (
                "kill",
                f"within {after[6:]}",
                "",
                False,
                disk.names(),
                {
                    **disk.data,
                    operation.inode: torn,
                },
            )
        disk.apply(number)
        yield "kill", after, "", ended, disk.names(), disk.data
        if not ended and not disk.is_public(operation):
            continue
        for text, lost, names, data in disk.power_cuts(operation, ended=ended):
            kind: Kind = "single" if lost else "power"
            yield kind, f"{after}; {text}", lost, ended, names, data


class _Disk:
    """What has been done so far, and what of it is certain to be on the disk."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._done: list[tuple[int, Change]] = []
        self._pending: dict[int, Change] = {}
        self.data = dict(recording.data)
        self._certain = dict(recording.data)

    def apply(self, number: int) -> None:
        operation = self._recording.operations[number]
        match operation:
            case Change(entries=entries):
                self._done.append((number, operation))
                self._pending[number] = operation
                for inode in entries.values():
                    if inode is not None and inode not in self.data:
                        new = None if _is_directory(self._recording, inode) else b""
                        self.data[inode] = self._certain[inode] = new
            case Write(inode=inode, data=data):
                self.data[inode] = data
            case Flush(inode=inode):
                self._certain[inode] = self.data.get(inode)
                # A renaming is one transaction: it lasts once the directory lasts that has the
                # new name.
                self._pending = {
                    number: change
                    for number, change in self._pending.items()
                    if inode not in _gaining(change)
                }

    def names(self, lost: Collection[int] = ()) -> Names:
        found = dict(self._recording.names)
        for number, change in self._done:
            if number not in lost:
                for entry, inode in change.entries.items():
                    found.pop(entry, None)
                    if inode is not None:
                        found[entry] = inode
        return found

    def is_public(self, operation: Change | Write | Flush) -> bool:
        """Whether it changes more than temporary files, whose flushes do not matter either."""
        return isinstance(operation, Change) and _visible(operation)

    def power_cuts(
        self, operation: Change | Write | Flush, *, ended: bool
    ) -> Iterator[tuple[str, str, Names, Mapping[int, bytes | None]]]:
        """Description, what alone was lost, names and bytes."""
        names, pending = self.names(), self._pending
        reachable = {inode for entry, inode in names.items() if not _hidden(entry[1])}
        loose = [
            inode
            for inode, content in self.data.items()
            if content is not None and content != self._certain[inode] and inode in reachable
        ]
        kept = {**self.data, **{inode: self._certain[inode] for inode in loose}}
        yield "nothing lasts that was not flushed", "", self.names(pending), kept
        for what, damage in _DAMAGE.items():
            damaged = {inode: self._damaged(inode, damage) for inode in loose}
            yield f"bytes not flushed are {what}", "", names, {**self.data, **damaged}
            for inode in loose:
                if ended or (isinstance(operation, Change) and inode in operation.entries.values()):
                    text = f"of one file, bytes not flushed are {what}"
                    yield text, f"{text}: {inode}", names, {**self.data, inode: damaged[inode]}
        for number, change in pending.items():
            if _visible(change):
                text = f"operation {number}, {change.text}, did not last"
                yield text, text, self.names([number]), self.data
                others = pending.keys() - {number}
                text = f"only operation {number}, {change.text}, lasted"
                yield text, text, self.names(others), kept

    def _damaged(self, inode: int, damage: str) -> bytes:
        old, new = self._certain[inode] or b"", self.data[inode] or b""
        if damage == "missing":
            return old
        if damage == "torn":
            return _torn(old, new)
        size = len(new)
        pages = range(0, size, PAGE)
        changed = (new[at : at + PAGE] != old[at : at + PAGE] for at in pages)
        return b"".join(
            bytes(len(new[at : at + PAGE])) if differs else new[at : at + PAGE]
            for at, differs in zip(pages, changed, strict=True)
        )


_DAMAGE = {"missing": "missing", "zero": "zero", "torn at a page": "torn"}


def _torn(old: bytes, new: bytes) -> bytes:
    """The first half of what differs, up to a page; of less than two pages, up to a sector."""
    same = next(
        (at for at, (x, y) in enumerate(zip(old, new, strict=False)) if x != y),
        min(len(old), len(new)),
    )
    middle = (same + len(new)) // 2
    middle -= middle % (PAGE if len(new) >= 2 * PAGE else SECTOR)
    return new[:middle] + old[middle:]


def _gaining(change: Change) -> set[int]:
    """The directories that have a new name; or else that have lost one."""
    gaining = {parent for (parent, _), inode in change.entries.items() if inode is not None}
    return gaining or {parent for parent, _ in change.entries}


def _visible(change: Change) -> bool:
    return not all(_hidden(name) or _OF_RUN.match(name) for _, name in change.entries)


_PARTIAL = re.compile(r"\.[0-9a-f]{8}\.partial")
_OF_RUN = re.compile(r"task-|lock$")  # what processes of one run tell each other


def _hidden(path: str) -> bool:
    return _PARTIAL.search(path) is not None


def _plain(path: str) -> str:
    """Temporary names without what is random in them."""
    return _PARTIAL.sub(".partial", path)


def _is_directory(recording: Recording, inode: int) -> bool:
    return inode not in recording.modified


def _tree(
    recording: Recording, names: Names, data: Mapping[int, bytes | None]
) -> dict[str, tuple[bytes, int] | None]:
    """What can be reached from the root; of a directory that was lost, nothing can."""
    inside: dict[int, list[Entry]] = {}
    for entry in names:
        inside.setdefault(entry[0], []).append(entry)
    tree: dict[str, tuple[bytes, int] | None] = {}
    todo = [("", recording.root)]
    for above, directory in todo:
        for entry in sorted(inside.get(directory, ())):
            inode, path = names[entry], f"{above}{entry[1]}"
            content = data[inode]
            tree[path] = None if content is None else (content, recording.modified[inode])
            if content is None:
                todo.append((f"{path}/", inode))
    return tree
