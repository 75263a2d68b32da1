"""Layouts of files on Lustre, as values: how many stripes, of which size, up to where."""

from __future__ import annotations

from dataclasses import dataclass

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30

ALL_OSTS = -1
"""A stripe count: as many as there are object storage targets."""

# lustre_user.h: LOV_MIN_STRIPE_SIZE, the limit of 32 bits, LOV_MAX_STRIPE_COUNT, LOV_MAXPOOLNAME.
SIZE_UNIT = 64 * KIB
SIZE_LIMIT = 4 * GIB
MOST_STRIPES = 2000
LONGEST_POOL_NAME = 15


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


@dataclass(frozen=True, slots=True)
class Layout:
    """A whole file's: one component, or several one behind the other.

    Attributes:
        composite: whether Lustre keeps it as a composite, which it can be with one component.
    """

    components: tuple[Component, ...]
    composite: bool = False

    def __str__(self) -> str:
        """E.g. ``1 stripe of 4 MiB``."""
        if not self.composite:
            return _described(self.components[0])
        parts = [f"{_described(part)} to {_end(part.end)}" for part in self.components]
        return f"progressive: {', '.join(parts)}"


def is_in_force(asked: Layout, found: Layout, osts: int | None) -> bool:
    """Whether a layout that was read back is the one that was asked for.

    A file cannot have more stripes than there are targets; a pool that nobody asked for is the
    site's business.

    Args:
        asked: what was set.
        found: what a directory or a file has.
        osts: how many targets there are, if known.
    """
    if asked.composite != found.composite or len(asked.components) != len(found.components):
        return False
    pairs = zip(asked.components, found.components, strict=True)
    return all(_is_same(part, other, osts) for part, other in pairs)


def binary_size(count: int) -> str:
    """Bytes in the power of 1024 that divides them: ``64 KiB``, ``4 MiB``."""
    for unit, scale in (("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if count and count % scale == 0:
            return f"{count // scale} {unit}"
    return f"{count:,} bytes"


def _is_same(asked: Component, found: Component, osts: int | None) -> bool:
    counts = {asked.count}
    if osts is not None:
        counts.add(osts if asked.count == ALL_OSTS else min(asked.count, osts))
    return (
        found.count in counts
        and (asked.size, asked.end) == (found.size, found.end)
        and asked.pool in ("", found.pool)
    )


def _described(part: Component) -> str:
    if part.count == 0:
        return "on the metadata server"
    size = f"of {binary_size(part.size)}"
    if part.count == ALL_OSTS:
        text = f"stripes {size} on all targets"
    else:
        text = f"{part.count} {'stripe' if part.count == 1 else 'stripes'} {size}"
    return f"{text} in pool {part.pool}" if part.pool else text


def _end(end: int | None) -> str:
    return "the end" if end is None else binary_size(end)
