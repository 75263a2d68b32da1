"""How names and failures are worded, so that every message stays one printable line."""

from __future__ import annotations

import errno
import os
import re
import resource
from collections.abc import Collection
from pathlib import Path
from typing import Final

from dataprep.errors import SourceError, UsageError

# Of a file of a data set that is damaged.
REMEDY: Final = (
    "take it from another copy of the data set, or run the command that made the data set again; "
    "if that does not help, with --overwrite"
)
_MOST_NAMES = 5
# A password, or what signs an address, in an argument or behind the = of an option. `Path` may have
# taken a slash of it.
_WITH_SECRET: Final = re.compile(
    r"(?:^|=)[a-z][\w+.-]+:/{1,2}"
    r"(?:[^/\s]+@|\S*[?&](?:sig|signature|x-(?:amz|goog)-[\w-]+|\w*key\w*|\w*token|password)=)",
    re.ASCII | re.IGNORECASE,
)


def printable(text: str) -> str:
    """A text as a terminal may show it: what is not printable is escaped, a newline too."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def refuse_secrets(text: str) -> None:
    """Refuse an address of any kind with a password or a signature, which would be shown and kept.

    Raises:
        UsageError: it is one.
    """
    if _WITH_SECRET.search(text):
        raise UsageError(
            "an address has a password or a signature in it, so it is not shown; "
            "expected s3://BUCKET/PREFIX, gs:// or az://, and credentials in the environment"
        )


def some_of(names: Collection[str]) -> str:
    """The first few names, and how many more there are."""
    first = ", ".join(printable(name) for name in sorted(names)[:_MOST_NAMES])
    more = len(names) - _MOST_NAMES
    return f"{first} and {more} more" if more > 0 else first


def counted(count: int, noun: str, several: str = "") -> str:
    """A number and what is counted: ``1 shard``, ``1,024 shards``, ``2 boxes``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {several or noun + 's'}"


def unreadable(place: str, error: OSError) -> SourceError:
    """The error for a file or directory the system refuses to read."""
    return SourceError(
        f"cannot read {printable(place)}: {refusal(error)}; check that it exists, that its "
        "permissions allow reading and that the file system is healthy"
    )


def cannot_be_read(error: OSError, remedy: str = "") -> str:
    """That and why, and what to do: the remedy is of what is damaged, not of what is forbidden."""
    if isinstance(error, PermissionError):
        remedy = "change its permissions, or those of a directory above it"
    return f"cannot be read: {refusal(error)}; {remedy}"


def refusal(error: OSError) -> str:
    """Why the system refused something, and what that limit is."""
    reason = error.strerror or str(error)
    bound, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    if error.errno == errno.EFBIG and bound != resource.RLIM_INFINITY:
        return f"{reason}, files may have {sized(bound)} here (ulimit -f)"
    return reason


def shortage(error: OSError, place: Path | int) -> tuple[str, str]:
    """What is used up where a file system takes no more, bytes or files; and what to do.

    Args:
        place: what was written to, or a descriptor of it.
    """
    if error.errno == errno.EDQUOT:
        return (
            f"the quota, of bytes or of files, is used up ({error.strerror})",
            "delete some of either, or ask for more",
        )
    try:
        status = os.statvfs(place)
    except OSError:
        return "no space left", "free some"
    if status.f_files and not status.f_favail:
        free = sized(status.f_bavail * (status.f_frsize or status.f_bsize))
        return (
            f"it can hold no more files, though {free} are free (no inode is left; df -i)",
            "delete files there",
        )
    return "no space left", "free some"


def sized(count: float) -> str:
    """Bytes as a person reads them, in powers of 1000: ``532 bytes``, ``38.0 MB``, ``147.9 GB``."""
    for unit, scale in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if count >= scale:
            return f"{count / scale:.1f} {unit}"
    return counted(int(count), "byte")
