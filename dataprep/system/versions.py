"""The versions of what wrote a data set, beside those that are here."""

from __future__ import annotations

import re
from collections.abc import Mapping

from dataprep.system.messages import printable
from dataprep.version import __version__


def differing(theirs: Mapping[str, str], ours: Mapping[str, str], between: str) -> tuple[str, ...]:
    """Of what both name, what has another version: ``pillow 11.3.0, now 12.0.0``.

    Args:
        between: what stands between two versions: ``, now``.
    """
    return tuple(
        printable(f"{name} {theirs[name]}{between} {ours[name]}")
        for name in sorted(theirs.keys() & ours.keys())
        if theirs[name] != ours[name]
    )


def upgrade(versions: object) -> str:
    """What to do about a data set that a later version of dataprep wrote; empty of any other.

    Args:
        versions: what its manifest names, or anything else that stands in that place.
    """
    theirs = str(versions.get("dataprep")) if isinstance(versions, dict) else ""
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9}){1,3}[a-z0-9.+]{0,40}", theirs):
        return ""
    if release(theirs) <= release(__version__):
        return ""
    return (
        f"dataprep {theirs} wrote it, and this is {__version__}: "
        f"pip install --upgrade 'dataprep-shards>={theirs}'"
    )


def release(version: str) -> list[int]:
    """The numbers of a version: 1, 2 and 3 of 1.2.3rc1."""
    return [int(number) for number in re.findall(r"^[0-9]+|(?<=\.)[0-9]+", version)][:3]
