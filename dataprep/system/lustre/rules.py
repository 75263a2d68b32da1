"""Layouts of files on Lustre as values, and which layout suits which files.

The sources of the rules, centre by centre, are in ``docs/lustre.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30

ALL_OSTS = -1
"""A stripe count: as many as there are object storage targets."""

# lustre_user.h: LOV_MIN_STRIPE_SIZE, the limit of 32 bits, LOV_MAX_STRIPE_COUNT.
SIZE_UNIT = 64 * KIB
SIZE_LIMIT = 4 * GIB
MOST_STRIPES = 2000

STRIPE_SIZE = 4 * MIB
"""The default of Lustre itself today, and the upper end of the 1 to 4 MiB that its manual and the
centres recommend; also what is read and written at once here and sent in one request there."""

# Inria's form: a shard stays on one target. Its last component had all targets; CSCS, which had
# that too, went down to 32.
_PROGRESSIVE = ((512 * MIB, 1), (40 * GIB, 4), (None, 32))


@dataclass(frozen=True, slots=True)
class Component:
    """How a part of a file is laid out.

    Attributes:
        count: stripes; `ALL_OSTS`; 0 where the part is on the metadata server.
        size: of a stripe, in bytes.
        end: the byte where the part ends; None for the end of the file.
        pool: of the targets to use; empty for any, or for whichever there are.
    """

    count: int
    size: int
    end: int | None = None
    pool: str = ""

    def __str__(self) -> str:
        """E.g. ``1 stripe of 4 MiB``."""
        if self.count == 0:
            return "on the metadata server"
        pool = f" in pool {self.pool}" if self.pool else ""
        if self.count == ALL_OSTS:
            return f"stripes of {binary_size(self.size)} on all targets{pool}"
        stripes = "stripe" if self.count == 1 else "stripes"
        return f"{self.count} {stripes} of {binary_size(self.size)}{pool}"


Layout = tuple[Component, ...]
"""A whole file's: one component, or several one behind the other: a progressive layout."""


def described(layout: Layout) -> str:
    """E.g. ``progressive: 1 stripe of 4 MiB to 512 MiB, 4 stripes of 4 MiB to the end``."""
    if len(layout) == 1:
        return str(layout[0])
    ends = ("the end" if part.end is None else binary_size(part.end) for part in layout)
    parts = (f"{part} to {end}" for part, end in zip(layout, ends, strict=True))
    return f"progressive: {', '.join(parts)}"


def binary_size(count: int) -> str:
    """Bytes in the power of 1024 that divides them: ``64 KiB``, ``4 MiB``."""
    for unit, scale in (("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if count and count % scale == 0:
            return f"{count // scale} {unit}"
    return f"{count:,} bytes"


def is_in_force(asked: Layout, found: Layout | None, osts: int | None) -> bool:
    """Whether a layout that was read back is the one that was asked for.

    A file cannot have more stripes than there are targets; a pool that nobody asked for is the
    site's business.

    Args:
        found: what a directory has; None if it cannot be told.
    """
    if found is None or len(asked) != len(found):
        return False
    return all(
        other.count in (part.count, _at_most(part.count, osts))
        and (part.size, part.end) == (other.size, other.end)
        and part.pool in ("", other.pool)
        for part, other in zip(asked, found, strict=True)
    )


@dataclass(frozen=True, slots=True)
class Striping:
    """What the user wants.

    Attributes:
        count: stripes a file, or `ALL_OSTS`; ``auto``: by the size of the files, unless the site
            has a progressive layout; ``pfl``: a progressive layout; ``off``: leave all as it is.
        stripe_size: in bytes.
        most: never more stripes than this.
        pool: of the targets to use; empty for none in particular.
        asked: whether the user said any of it, and so is to be told if it means nothing here.
    """

    count: int | Literal["auto", "pfl", "off"] = "auto"
    stripe_size: int = STRIPE_SIZE
    most: int | None = None
    pool: str = ""
    asked: bool = False

    @property
    def is_optional(self) -> bool:
        """Whether a job goes on without it, since it was not asked for a layout in particular."""
        return self.count == "auto"


def wanted_layout(striping: Striping, largest: int, osts: int | None) -> Layout:
    """The layout for a directory.

    Args:
        striping: what the user wants; not ``off``.
        largest: the bytes of the largest file that is or will be there.
        osts: how many targets there are; None if that is unknown.
    """
    size, pool = striping.stripe_size, striping.pool
    if isinstance(striping.count, int):
        return (Component(_at_most(striping.count, striping.most), size, None, pool),)
    steps = _PROGRESSIVE if striping.count == "pfl" else ((None, stripes_for(largest)),)
    return tuple(
        Component(_at_most(count, striping.most, osts), size, end, pool) for end, count in steps
    )


def stripes_for(size: int) -> int:
    """The stripes of a file of so many bytes: the rule of Lustre's own ``lfs migrate -A``.

    Below 1 GiB one, since one target is fast enough and the many shards spread by themselves;
    above, as the square root grows.
    """
    return 1 if size < GIB else math.isqrt(size // GIB) + 1


def _at_most(count: int, *limits: int | None) -> int:
    known = [limit for limit in limits if limit]
    if count == ALL_OSTS:
        return min(known, default=ALL_OSTS)
    return min([count, *known])
