"""Marks that a person gives to images, written into a decisions file as they are given."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from threading import RLock
from typing import Final, TypeAlias

from dataprep.errors import UsageError
from dataprep.tables.decisions import (
    Decision,
    Kind,
    conflicts,
    describe_conflict,
    read_decisions,
    write_decisions,
)

Image: TypeAlias = tuple[str, str]
"""Split and key."""

# What one person cannot mean together: `sure` is that an image is right as it is.
_AGAINST: Final[Mapping[Kind, tuple[Kind, ...]]] = {
    "sure": ("leave_out", "label", "split"),
    "leave_out": ("sure",),
    "label": ("sure",),
    "split": ("sure",),
}


class Marks:
    """The decisions in a file, to which one person adds here; from any thread.

    Who changes the file beside this, in an editor, is heard: it is read again before each change.

    Args:
        path: of the CSV; it need not be there.
        who: the person.

    Raises:
        UsageError: the file cannot be read, has odd lines, or is no CSV; or the name cannot stand
            in it.
    """

    def __init__(self, path: Path, who: str) -> None:
        self.path, self.who = path, who
        self._lock = RLock()
        self._state: tuple[int, ...] | None = None
        self._found: tuple[Decision, ...] = ()
        self._before: list[tuple[Sequence[Image], list[Decision]]] = []  # of each change
        try:
            Decision("key", "split", "sure", who=who)
        except ValueError as error:
            raise UsageError(f"--who: found {error}") from None
        if path.suffix == ".parquet":
            raise UsageError(f"--decisions: {path} would be Parquet, and marks are written as CSV")
        self._read()

    def of(self, images: Iterable[Image]) -> dict[Image, list[Decision]]:
        """What anybody decided about each of these images, if anything.

        Raises:
            UsageError: the file cannot be read.
        """
        with self._lock:
            self._read()
            by_key = defaultdict(list)
            for one in self._found:
                if one.of_class is None:
                    by_key[one.key].append(one)
        return {
            (split, key): [one for one in by_key[key] if one.split in ("", split)]
            for split, key in images
            if key in by_key
        }

    def contradictions(self) -> list[str]:
        """Where people say different things, a line each, with who said what.

        Raises:
            UsageError: the file cannot be read.
        """
        with self._lock:
            self._read()
            return [describe_conflict(one) for one in conflicts(self._found)]

    def mark(self, images: Sequence[Image], kind: Kind, value: str = "", note: str = "") -> None:
        """Decide about images, and write that down.

        Raises:
            UsageError: the file cannot be read or written.
            ValueError: a decision says nothing, or cannot be written.
        """
        made = [Decision(key, split, kind, value, self.who, note) for split, key in images]
        against = (kind, *_AGAINST.get(kind, ()))
        self._change(images, lambda one: one.decision in against, made)

    def clear(self, images: Sequence[Image]) -> None:
        """Take away what this person decided about images.

        Raises:
            UsageError: the file cannot be read or written.
        """
        self._change(images, lambda _one: True, [])

    def undo(self) -> Sequence[Image]:
        """Take the last change back; returns its images, none if there was no change.

        Raises:
            UsageError: the file cannot be read or written.
        """
        with self._lock:
            if not self._before:
                return ()
            images, before = self._before[-1]
            self._change(images, lambda _one: True, before)
            del self._before[-2:]  # that change, and its taking back
        return images

    def _change(
        self, images: Sequence[Image], goes: Callable[[Decision], bool], made: list[Decision]
    ) -> None:
        with self._lock:
            self._read()
            mine = self._mine({*images})
            before = [one for one in self._found if mine(one)]
            kept = [one for one in self._found if not (mine(one) and goes(one))]
            write_decisions(self.path, [*kept, *made])
            self._read()
            self._before.append((images, before))

    def _mine(self, images: Collection[Image]) -> Callable[[Decision], bool]:
        keys = {key for _, key in images}
        return lambda one: (
            one.who == self.who
            and one.key in keys
            and ((one.split, one.key) in images or not one.split)
            and one.of_class is None
        )

    def _read(self) -> None:
        try:
            found = self.path.stat()
        except FileNotFoundError:
            self._state, self._found = None, ()
            return
        except OSError as error:
            raise UsageError(f"--decisions: {self.path}: {error.strerror}") from error
        state = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
        if state != self._state:
            self._found, self._state = read_decisions([self.path]), state
