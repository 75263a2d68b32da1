"""What `lfs` prints, read: layouts in every form that Lustre has had, and the table of targets.

``getstripe`` prints a layout as labelled lines, as one line for a directory, and for composites
as nested maps that changed in 2.16; with ``--yaml`` or without, the labels are the same. So the
labels are what is read, in the order in which they come, and their nesting is not.
"""

from __future__ import annotations

import re

from dataprep.system.lustre.layout import Component, Layout

_LABELLED = re.compile(
    r"(?:^|(?<=\s))(?:lmm_)?(lcm_entry_count|lcme_extent\.e_end|stripe_count|stripe_size"
    r"|extension_size|pool):[ \t]+(\S+)"
)
_TARGET = re.compile(r"\[OST:\d+\][ \t]*([A-Za-z]*)[ \t]*$", re.MULTILINE)
# States in which no new file gets a stripe there: no precreation, read-only, no space or inodes.
_CLOSED = frozenset("NRSI")


def parse_layout(text: str) -> Layout | None:
    """One file's or one directory's layout.

    Args:
        text: what ``lfs getstripe [-d] [-y] PATH`` printed, by any version.

    Returns:
        The layout; None if there is none in the text.
    """
    composite = False
    parts: list[dict[str, str]] = [{}]
    for name, value in _LABELLED.findall(text):
        if name == "lcm_entry_count":
            composite = True
        elif name == "lcme_extent.e_end" and parts[-1]:
            parts.append({name: value})
        else:
            parts[-1].setdefault(name, value)
    try:
        return Layout(tuple(map(_component, parts)), composite)
    except (KeyError, ValueError):
        return None


def parse_value(text: str) -> int | None:
    """The bare number that one flag, such as ``-c``, makes ``lfs getstripe`` print."""
    try:
        return int(text)
    except ValueError:
        return None


def count_targets(text: str) -> int | None:
    """How many targets new files can use.

    Args:
        text: what ``lfs df PATH`` printed.

    Returns:
        None if there is no such table in the text.
    """
    return sum(not _CLOSED & set(state) for state in _TARGET.findall(text)) or None


def _component(labels: dict[str, str]) -> Component:
    end = labels.get("lcme_extent.e_end", "EOF")
    return Component(
        count=int(labels["stripe_count"]),
        # The part of a self-extending layout that is still to come has no stripes yet.
        size=int(labels.get("stripe_size") or labels["extension_size"]),
        end=None if end in ("EOF", "-1") else int(end),
        pool=labels.get("pool", ""),
    )
