"""Which layout suits which files.

The sources of the rules, centre by centre, are in ``docs/lustre.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from dataprep.system.lustre.layout import ALL_OSTS, GIB, MIB, Component, Layout

STRIPE_SIZE = 4 * MIB
"""The default of Lustre itself today, and the upper end of the 1 to 4 MiB that its manual and the
centres recommend; also what is read and written at once here and sent in one request there."""

# Inria's form: a shard stays on one target. Its last component had all targets; CSCS, which had
# that too, went down to 32.
_PROGRESSIVE = ((512 * MIB, 1), (40 * GIB, 4), (None, 32))


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
    if striping.count == "pfl":
        parts = [
            Component(_at_most(count, striping.most, osts), size, end, pool)
            for end, count in _PROGRESSIVE
        ]
        return Layout(tuple(parts), composite=True)
    if isinstance(striping.count, int):
        count = _at_most(striping.count, striping.most)
    else:
        count = _at_most(stripes_for(largest), striping.most, osts)
    return Layout((Component(count, size, None, pool),))


def stripes_for(size: int) -> int:
    """The stripes of a file of so many bytes: the rule of Lustre's own ``lfs migrate -A``.

    Below 1 GiB one, since one target is fast enough and the many shards spread by themselves;
    above, as the square root grows.
    """
    return 1 if size < GIB else math.isqrt(size // GIB) + 1


def _at_most(count: int, *limits: int | None) -> int:
    known = list(_known(limits))
    if count == ALL_OSTS:
        return min(known, default=ALL_OSTS)
    return min([count, *known])


def _known(limits: Iterable[int | None]) -> Iterable[int]:
    return (limit for limit in limits if limit)
