"""Setting the layout of directories, and saying what is then in force."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from dataprep.errors import DatasetError
from dataprep.system.filesystems import filesystem_of
from dataprep.system.lustre.lfs import Lfs
from dataprep.system.lustre.rules import Layout, Striping, is_in_force, wanted_layout
from dataprep.system.messages import sized, unreadable

LUSTRE = "lustre"


@dataclass(frozen=True, slots=True)
class Expected:
    """A directory, and the bytes of the largest file that is or will be in it."""

    directory: Path
    largest: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done with a directory.

    Attributes:
        asked: the layout that it should have; None to leave it what it has: the site's progressive
            one, or one that somebody chose.
        current: the one that it has, or would have if made now; None if it cannot be told.
        there: whether the directory exists.
        osts: how many targets there are, if known.
        rule: the layout that it would have got, had not somebody chosen another before.
    """

    expected: Expected
    asked: Layout | None
    current: Layout | None
    there: bool
    osts: int | None
    rule: Layout | None = None

    @property
    def directory(self) -> Path:
        """Which directory."""
        return self.expected.directory

    @property
    def changes(self) -> bool:
        """Whether ``lfs setstripe`` has to be run."""
        # What it would inherit may change meanwhile, with the directory above it.
        return self.asked is not None and not (self.there and self.has(self.current))

    def has(self, found: Layout | None) -> bool:
        """Whether a layout is the one that was asked for."""
        asked = self.asked
        return asked is None or (found is not None and is_in_force(asked, found, self.osts))


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is in force in a directory now.

    Attributes:
        found: read back; None if it cannot be.
    """

    plan: Plan
    found: Layout | None

    @property
    def state(self) -> Literal["set", "already", "kept", "refused"]:
        """What became of the plan; ``refused``: `lfs` succeeded, and yet the layout is another."""
        if self.plan.asked is None:
            return "kept"
        if not self.plan.changes:
            return "already"
        return "set" if self.plan.has(self.found) else "refused"

    def __str__(self) -> str:
        """One line for the user."""
        directory, asked = self.plan.directory, self.plan.asked
        if self.state == "kept":
            kept = f"{directory}: kept as it is ({self.found})"
            if self.plan.rule is None:
                return kept
            return (
                f"{kept}, which is not the file system's default, so somebody chose it; "
                f"--lustre_stripe auto would set {self.plan.rule}"
            )
        if self.state == "already":
            return f"{directory}: already {self.found}"
        if self.state == "set":
            size = sized(self.plan.expected.largest)
            return f"{directory}: set to {self.found}, for files of about {size}"
        if self.found is None:
            return f"{directory}: asked for {asked}; what is in force cannot be read back"
        return (
            f"{directory}: asked for {asked}, but in force is {self.found}: `lfs setstripe` "
            "succeeded without doing so; the site restricts layouts"
        )


def expected_in(
    root: Path, files: Mapping[Path, int], file_size: int | None, default: int
) -> list[Expected]:
    """The directories whose layout matters: the one that was named, and those that hold files.

    Args:
        root: what the user named; its largest file is the largest of any below.
        files: what is there or is known to come, with sizes.
        file_size: what the user says will be there; believed more than what is there.
        default: for a directory of which nothing is known.
    """
    largest = {root: 0 if files else default}
    for file, size in files.items():
        for directory in (file.parent, root):
            largest[directory] = max(size, largest.get(directory, 0))
    if file_size is not None:
        largest = dict.fromkeys(largest, file_size)
    return [Expected(directory, largest[directory]) for directory in sorted(largest)]


def existing_files(root: Path) -> dict[Path, int]:
    """The regular files below a directory, and their sizes.

    Hidden ones are left out, and what is in hidden directories: unfinished files, and what
    programs keep for themselves.

    Raises:
        SourceError: a directory cannot be read.
    """
    return dict(_walk(root)) if root.exists() else {}


def _walk(root: Path) -> Iterator[tuple[Path, int]]:
    def fail(error: OSError) -> None:
        raise unreadable(str(error.filename or root), error) from error

    for place, directories, names in os.walk(root, onerror=fail):
        directories[:] = [name for name in directories if not name.startswith(".")]
        for name in names:
            file = Path(place, name)
            if name.startswith(".") or file.is_symlink() or not file.is_file():
                continue
            with suppress(FileNotFoundError):  # a job is at work there
                yield file, file.stat().st_size


def plan_directories(lfs: Lfs, directories: Sequence[Expected], striping: Striping) -> list[Plan]:
    """Decide for each directory, by the rules and by what it has now.

    Args:
        lfs: asked what there is; nothing is changed.
        directories: need not exist; all on one file system.
        striping: what the user wants; not ``off``.

    Raises:
        LfsError: `lfs` cannot be run.
    """
    if not directories:
        return []
    first = _nearest(directories[0].directory)
    osts = lfs.targets(first)
    # Whoever names an option wants the rules. All others may have chosen a layout before.
    default = None if striping.asked else _default(lfs, first)
    plans = []
    for expected in directories:
        nearest = _nearest(expected.directory)
        current = lfs.layout_of(nearest)
        asked = wanted_layout(striping, expected.largest, osts)
        there = nearest == expected.directory
        plan = Plan(expected, asked, current, there, osts)
        if striping.count == "auto" and current is not None:
            if current.composite:
                plan = replace(plan, asked=None)
            elif default not in (None, current) and not plan.has(current):
                plan = replace(plan, asked=None, rule=asked)
        plans.append(plan)
    return plans


def carry_out(lfs: Lfs, plan: Plan) -> Outcome:
    """Make the directory if need be, set its layout if it is another, and read it back.

    Raises:
        LfsError: `lfs` failed.
        DatasetError: the directory cannot be made.
    """
    directory = plan.directory
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DatasetError(
            f"{directory} cannot be made: {error.strerror}; choose another place"
        ) from error
    if plan.asked is not None and plan.changes:
        lfs.set_layout(directory, plan.asked)
    return Outcome(plan, lfs.layout_of(directory))


def explain_other(kind: str, directory: Path) -> str:
    """Why nothing is done on a file system that is not Lustre.

    Args:
        kind: the file system's type, as the kernel calls it; empty if it cannot be told.
        directory: where.
    """
    return f"{directory} is on {kind or 'an unknown file system'}, not on Lustre: no layout is set"


def _nearest(directory: Path) -> Path:
    """The directory, or the one above it that it would inherit from when made."""
    # Not Path.is_dir, which raises where one may not look.
    places = (directory, *directory.parents)
    return next(place for place in places if os.path.isdir(place))  # noqa: PTH112  # see above


def _default(lfs: Lfs, directory: Path) -> Layout | None:
    """The file system's own layout: that of the directory it is mounted at; None if unknown.

    A directory that nobody gave a layout has this one, or that of a directory above it.
    """
    device = directory.stat().st_dev
    above = [directory]
    for place in directory.parents:
        if filesystem_of(place) != LUSTRE or place.stat().st_dev != device:
            break
        above.append(place)
    found = (lfs.layout_of(place) for place in reversed(above))
    # One that may not be read is no answer; the next best is what is below it.
    return next((layout for layout in found if layout is not None), None)
