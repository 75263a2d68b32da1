"""Setting the layout of directories with `lfs`, Lustre's own tool, and reading it back.

What `lfs` says differs from version to version, so nothing is concluded from its messages: only
from its exit code, and from what it prints of layouts. A success is no proof: where an
administrator restricts ``setstripe`` (since Lustre 2.16) it sets another layout and exits with 0.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dataprep.errors import DatasetError
from dataprep.system.lustre.rules import (
    GIB,
    KIB,
    MIB,
    Component,
    Layout,
    Striping,
    described,
    is_in_force,
    wanted_layout,
)
from dataprep.system.messages import printable, sized

LUSTRE = "lustre"

_SECONDS = 60.0  # for a question; a file system that is down answers never
# The labels of layouts are the same in all forms that Lustre has had: as lines, as one line for a
# directory, and nested in composites. So they are read in the order in which they come, and their
# nesting is not.
_LABELLED = re.compile(
    r"(?:^|(?<=\s))(?:lmm_)?(lcme_extent\.e_end|stripe_count|stripe_size|extension_size|pool)"
    r":[ \t]+(\S+)"
)
_TARGET = re.compile(r"\[OST:\d+\][ \t]*([A-Za-z]*)[ \t]*$", re.MULTILINE)
# States in which no new file gets a stripe there: no precreation, read-only, no space or inodes.
_CLOSED = frozenset("NRSI")


class LfsError(DatasetError):
    """`lfs` could not be run, or failed."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done with a directory.

    Attributes:
        directory: which; it need not exist.
        largest: the bytes of the largest file that is or will be in it.
        current: the layout that it has, or would have if made now; None if it cannot be told.
        rule: the layout that the user's wishes and the rules give it.
        kept: whether it keeps what it has: the site's progressive one, or one that somebody chose.
        osts: how many targets there are, if known.
    """

    directory: Path
    largest: int
    current: Layout | None
    rule: Layout
    kept: bool
    osts: int | None

    @property
    def changes(self) -> bool:
        """Whether ``lfs setstripe`` has to be run."""
        # What it would inherit may change meanwhile, with the directory above it.
        return not self.kept and not (self.directory.exists() and self.has(self.current))

    def has(self, found: Layout | None) -> bool:
        """Whether a layout is the one that the directory should have."""
        return self.kept or is_in_force(self.rule, found, self.osts)


def plan_directories(largest: Mapping[Path, int], striping: Striping) -> list[Plan]:
    """Decide for each directory, by the rules and by what it has now; nothing is changed.

    Args:
        largest: directories on one file system, which need not exist, with the bytes of the
            largest file that is or will be in each.
        striping: what the user wants; not ``off``.

    Raises:
        LfsError: `lfs` cannot be run.
    """
    if not largest:
        return []
    first = _nearest(min(largest))
    osts = count_targets(_lfs("df", str(first)).stdout)
    # A directory that nobody gave a layout has that of the one it is mounted at. Whoever names an
    # option wants the rules; all others may have chosen a layout before.
    mount = next(place for place in (first, *first.parents) if os.path.ismount(place))
    default = None if striping.asked else layout_of(mount)
    plans = []
    for directory, size in sorted(largest.items()):
        current, rule = layout_of(_nearest(directory)), wanted_layout(striping, size, osts)
        chosen = default not in (None, current) and not is_in_force(rule, current, osts)
        progressive = current is not None and len(current) > 1
        kept = striping.count == "auto" and current is not None and (chosen or progressive)
        plans.append(Plan(directory, size, current, rule, kept, osts))
    return plans


def carry_out(plan: Plan) -> tuple[bool, str]:
    """Make the directory if need be, set its layout if it is another, and read it back.

    Returns:
        Whether it has the layout that it should have, and a line about it.

    Raises:
        LfsError: `lfs` failed.
        DatasetError: the directory cannot be made.
    """
    directory, changes = plan.directory, plan.changes
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DatasetError(f"{directory} cannot be made: {error.strerror}") from error
    if changes:
        words = setstripe_words(plan)
        done = _lfs(*words[1:])
        if done.returncode:
            said = printable(" ".join(done.stderr.split()))
            raise LfsError(f"`{shlex.join(words)}` failed: exit code {done.returncode}: {said}")
    found = layout_of(directory)
    if found is None:
        return plan.kept, f"{directory}: what is in force cannot be read back"
    if plan.kept:
        rule = described(plan.rule)
        return True, f"{directory}: kept as it is ({described(found)}); the rule would be {rule}"
    if not plan.has(found):
        return False, (
            f"{directory}: asked for {described(plan.rule)}, but in force is {described(found)}: "
            "`lfs setstripe` succeeded without doing so; the site restricts layouts"
        )
    if changes:
        size = sized(plan.largest)
        return True, f"{directory}: set to {described(found)}, for files of about {size}"
    return True, f"{directory}: already {described(found)}"


def explain_other(kind: str, directory: Path) -> str:
    """Why nothing is done on a file system that is not Lustre.

    Args:
        kind: the file system's type, as the kernel calls it; empty if it cannot be told.
    """
    return f"{directory} is on {kind or 'an unknown file system'}, not on Lustre: no layout is set"


def setstripe_words(plan: Plan) -> list[str]:
    """The command line that sets a directory's default; a path without anything would be a file.

    Count and size are always both given: ``setstripe`` sets both, whatever it was told.
    """
    words = ["lfs", "setstripe"]
    for part in plan.rule:
        if len(plan.rule) > 1:
            words += ["-E", "-1" if part.end is None else _size(part.end)]
        words += ["-c", str(part.count), "-S", _size(part.size)]
        words += ["-p", part.pool] if part.pool else []
    return [*words, str(plan.directory)]


def layout_of(directory: Path) -> Layout | None:
    """The layout that a directory gives its new files; None if it cannot be told.

    Raises:
        LfsError: `lfs` cannot be run.
    """
    return parse_layout(_lfs("getstripe", "-d", str(directory)).stdout)


def parse_layout(text: str) -> Layout | None:
    """What ``lfs getstripe -d`` printed, of any version; None if there is no layout in it."""
    parts: list[dict[str, str]] = [{}]
    for name, value in _LABELLED.findall(text):
        if name == "lcme_extent.e_end" and parts[-1]:
            parts.append({})
        parts[-1].setdefault(name, value)
    try:
        return tuple(map(_component, parts))
    except (KeyError, ValueError):
        return None


def _component(labels: Mapping[str, str]) -> Component:
    end = labels.get("lcme_extent.e_end", "EOF")
    return Component(
        count=int(labels["stripe_count"]),
        # The part of a self-extending layout that is still to come has no stripes yet.
        size=int(labels.get("stripe_size") or labels["extension_size"]),
        end=None if end in ("EOF", "-1") else int(end),
        pool=labels.get("pool", ""),
    )


def count_targets(text: str) -> int | None:
    """How many targets new files can use, by what ``lfs df`` printed; None if it has no table."""
    return sum(not _CLOSED & set(state) for state in _TARGET.findall(text)) or None


def _size(count: int) -> str:
    """With a unit, because bare numbers below 4096 are taken for KiB."""
    for unit, scale in (("G", GIB), ("M", MIB)):
        if count % scale == 0:
            return f"{count // scale}{unit}"
    return f"{count // KIB}K"


def _nearest(directory: Path) -> Path:
    """The directory, or the one above it that it would inherit from when made."""
    # Not Path.is_dir, which raises where one may not look.
    places = (directory, *directory.parents)
    return next(place for place in places if os.path.isdir(place))  # noqa: PTH112  # see above


def _lfs(*words: str) -> subprocess.CompletedProcess[str]:
    """Run it, without a shell; its failure is for the caller to judge.

    Raises:
        LfsError: there is none, or it does not answer.
    """
    try:
        return subprocess.run(  # noqa: S603
            ["lfs", *words],  # noqa: S607  # the site's, by PATH
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="backslashreplace",
            timeout=_SECONDS,
            check=False,
        )
    except FileNotFoundError as error:
        raise LfsError(
            "the directory is on Lustre, but there is no `lfs` on PATH; load the site's module for "
            "it, or run `dataprep stripe` where it is, such as on a login node"
        ) from error
    except (OSError, subprocess.SubprocessError) as error:
        raise LfsError(
            f"`lfs {shlex.join(words)}`: {error}; check that the file system is healthy"
        ) from error
