"""Layouts of files on Lustre: which suits which files, asked for on directories, and read back.

The sources of the rules, centre by centre, are in ``docs/lustre.md``. What `lfs`, Lustre's own
tool, says differs from version to version, so nothing is concluded from its messages: only from
its exit code, and from what it prints of layouts. A success is no proof: where an administrator
restricts ``setstripe`` (since Lustre 2.16) it sets another layout and exits with 0.
"""

from __future__ import annotations

import math
import os
import re
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dataprep.errors import DatasetError
from dataprep.system.messages import counted, printable, sized

LUSTRE = "lustre"
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30

ALL_OSTS = -1  # a stripe count: as many as there are object storage targets

# lustre_user.h: LOV_MIN_STRIPE_SIZE, the limit of 32 bits, LOV_MAX_STRIPE_COUNT.
SIZE_UNIT = 64 * KIB
SIZE_LIMIT = 4 * GIB
MOST_STRIPES = 2000

# The default of Lustre itself today, and the upper end of the 1 to 4 MiB that its manual and the
# centres recommend; also what is read and written at once here and sent in one request there.
STRIPE_SIZE = 4 * MIB
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
class Component:
    """How a part of a file is laid out."""

    count: int  # stripes; `ALL_OSTS`; 0 where the part is on the metadata server
    size: int  # of a stripe, in bytes
    end: int | None = None  # the byte where the part ends; None for the end of the file
    pool: str = ""  # of the targets to use; empty for any, or for whichever there are

    def __str__(self) -> str:
        """E.g. ``1 stripe of 4 MiB``."""
        size, pool = _binary(self.size), f" in pool {self.pool}" if self.pool else ""
        if self.count <= 0:
            everywhere = f"stripes of {size} on all targets{pool}"
            return everywhere if self.count else "on the metadata server"
        return f"{counted(self.count, 'stripe')} of {size}{pool}"


# A whole file's: one component; or several, one behind the other: the site's progressive one.
Layout = tuple[Component, ...]


def described(layout: Layout) -> str:
    """E.g. ``progressive: 1 stripe of 4 MiB to 512 MiB, 4 stripes of 4 MiB to the end``."""
    if len(layout) == 1:
        return str(layout[0])
    parts = (f"{part} to {_binary(part.end) if part.end else 'the end'}" for part in layout)
    return f"progressive: {', '.join(parts)}"


def _binary(count: int) -> str:
    """Bytes in the power of 1024 that divides them: ``64 KiB``, ``4 MiB``."""
    for unit, scale in (("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if count % scale == 0:
            return f"{count // scale} {unit}"
    return f"{count:,} bytes"


@dataclass(frozen=True, slots=True)
class Striping:
    """What the user wants.

    By ``auto`` the size of the files decides, unless the site has a progressive layout; by ``off``
    all is left as it is.
    """

    count: int | Literal["auto", "off"] = "auto"  # of stripes a file; `ALL_OSTS`
    stripe_size: int = STRIPE_SIZE  # in bytes
    pool: str = ""  # of the targets to use; empty for none in particular
    asked: bool = False  # the user said any of it, and is told if it means nothing here

    @property
    def is_optional(self) -> bool:
        """Whether a job goes on without it, since it was not asked for a layout in particular."""
        return self.count == "auto"

    def layout(self, largest: int, osts: int | None) -> Component:
        """That of a directory.

        Args:
            largest: the bytes of the largest file that is or will be there.
            osts: how many targets there are; None if that is unknown.
        """
        count = self.count
        if not isinstance(count, int):
            # Lustre's own rule, of ``lfs migrate -A``. Below 1 GiB one target is fast enough, and
            # the many shards spread by themselves; above, as the square root grows.
            count = _at_most(1 if largest < GIB else math.isqrt(largest // GIB) + 1, osts)
        return Component(count, self.stripe_size, None, self.pool)


def stripes(value: int | str) -> int | Literal["auto", "off"]:
    """A number of stripes, -1 for all targets, or a word.

    Raises:
        ValueError: it is none.
    """
    text = str(value)
    if text in ("auto", "off"):
        return "auto" if text == "auto" else "off"
    if not re.fullmatch(r"-1|[1-9]\d{0,3}", text, re.ASCII) or int(text) > MOST_STRIPES:
        raise ValueError(f"{text!r} is none of auto, off, 1 to {MOST_STRIPES} and -1 (all targets)")
    return int(text)


def _at_most(count: int, osts: int | None) -> int:
    if not osts:
        return count
    return osts if count == ALL_OSTS else min(count, osts)


def is_in_force(asked: Component, found: Layout | None, osts: int | None) -> bool:
    """Whether a layout that was read back is the one that was asked for.

    A file cannot have more stripes than there are targets; a pool that nobody asked for is the
    site's business.

    Args:
        found: what a directory has; None if it cannot be told.
    """
    if found is None or len(found) > 1:
        return False
    (other,) = found
    return (
        other.count in (asked.count, _at_most(asked.count, osts))
        and (asked.size, asked.end) == (other.size, other.end)
        and asked.pool in ("", other.pool)
    )


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done with a directory."""

    directory: Path  # it need not exist
    largest: int  # bytes of the largest file that is or will be in it
    rule: Component  # the layout that the user's wishes and the rules give it
    osts: int | None  # how many targets there are, if known
    kept: bool  # it keeps what it has: the site's progressive layout, or one that somebody chose
    changes: bool  # ``lfs setstripe`` has to be run


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
    default = None if striping.asked else _layout_of(mount)
    plans = []
    for directory, size in sorted(largest.items()):
        current, rule = _layout_of(_nearest(directory)), striping.layout(size, osts)
        ruled = is_in_force(rule, current, osts)
        chosen = default not in (None, current) and not ruled
        progressive = current is not None and len(current) > 1
        kept = striping.is_optional and current is not None and (chosen or progressive)
        # What it would inherit may change meanwhile, with the directory above it.
        changes = not kept and not (directory.exists() and ruled)
        plans.append(Plan(directory, size, rule, osts, kept, changes))
    return plans


def carry_out(plan: Plan) -> tuple[bool, str]:
    """Make the directory if need be, set its layout if it is another, and read it back.

    Returns:
        Whether it has the layout that it should have, and a line about it.

    Raises:
        LfsError: `lfs` failed.
        DatasetError: the directory cannot be made.
    """
    directory = plan.directory
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DatasetError(
            f"{directory} cannot be made: {error.strerror}; choose another, or see who may write "
            "there"
        ) from error
    if plan.changes:
        _set_layout(directory, plan.rule)
    layout = _layout_of(directory)
    if layout is None:
        return plan.kept, f"{directory}: what is in force cannot be read back"
    found = described(layout)
    if plan.kept:
        return True, f"{directory}: kept as it is ({found}); the rule would be {plan.rule}"
    if not is_in_force(plan.rule, layout, plan.osts):
        return False, (
            f"{directory}: asked for {plan.rule}, but in force is {found}: `lfs setstripe` "
            "succeeded without doing so; the site restricts layouts"
        )
    if plan.changes:
        return True, f"{directory}: set to {found}, for files of about {sized(plan.largest)}"
    return True, f"{directory}: already {found}"


def explain_other(kind: str, directory: Path) -> str:
    """Why nothing is done on a file system that is not Lustre.

    Args:
        kind: the file system's type, as the kernel calls it; empty if it cannot be told.
    """
    return f"{directory} is on {kind or 'an unknown file system'}, not on Lustre: no layout is set"


def _set_layout(directory: Path, layout: Component) -> None:
    """Set a directory's default; a path without anything would become a file.

    Count and size are always both given: ``setstripe`` sets both, whatever it was told.
    """
    words = ["setstripe", "-c", str(layout.count), "-S", str(layout.size)]
    words += ["-p", layout.pool] if layout.pool else []
    done = _lfs(*words, str(directory))
    if done.returncode:
        said = printable(" ".join(done.stderr.split()))
        command = shlex.join(["lfs", *words, str(directory)])
        raise LfsError(f"`{command}` failed: exit code {done.returncode}: {said}")


def _layout_of(directory: Path) -> Layout | None:
    """The layout that a directory gives its new files; None if it cannot be told."""
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


def _nearest(directory: Path) -> Path:
    """The directory, or the one above it that it would inherit from when made."""
    # Not Path.is_dir, which raises where one may not look.
    places = (directory, *directory.parents)
    return next(place for place in places if os.path.isdir(place))  # noqa: PTH112  # see above


def _lfs(*words: str) -> subprocess.CompletedProcess[str]:
    """Run it, without a shell; its failure is for the caller to judge."""
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
