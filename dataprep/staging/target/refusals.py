"""What to tell the user when a target refuses something: a file, or the directory itself."""

from __future__ import annotations

import errno
from pathlib import Path

from dataprep.errors import NoRoomError, StagingError
from dataprep.system.messages import printable

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_IN_THE_WAY = frozenset({errno.EISDIR, errno.ENOTDIR, errno.ELOOP, errno.ENOTEMPTY})


def target_error(error: OSError, place: str, path: str) -> StagingError:
    """The error for one file.

    Args:
        error: the refusal.
        place: the target directory.
        path: of the file in it.
    """
    name, reason = f"{place}/{printable(path)}", error.strerror or str(error)
    again = "and run the same command again: finished files are kept"
    if error.errno in _FULL:
        return StagingError(
            f"{place}: no space left for {printable(path)} ({reason}); free some {again}"
        )
    if error.errno == errno.EROFS:
        return StagingError(
            f"{name} cannot be written: {reason}; stage into another directory (--to)"
        )
    if error.errno == errno.EIO:
        return StagingError(
            f"{name} cannot be written: {reason}; this node's storage may be failing: "
            f"leave the node out {again}"
        )
    if error.errno in _IN_THE_WAY:
        return StagingError(
            f"{name} cannot be written, a directory, file or link is in its way ({reason}); "
            f"move that away {again}"
        )
    if error.errno == errno.ENOENT:
        return StagingError(
            f"{place} was removed while {printable(path)} was written; run the same command again"
        )
    return StagingError(f"{name} cannot be written: {reason}; mend that {again}")


def refused(
    path: Path | str, error: OSError, doing: str = "", *, copied: bool = True
) -> StagingError:
    """What to tell the user when the system refuses something in a target directory.

    Args:
        path: where.
        error: the refusal.
        doing: what was being done, e.g. ``writing complete.json``.
        copied: whether something may have been copied already; if not, no space is `NoRoomError`.
    """
    during = f" while {doing}" if doing else ""
    what, way_out = _REFUSALS.get(error.errno or 0, (error.strerror or str(error), "mend that"))
    if error.errno in _FULL:
        what, way_out = f"no space left ({error.strerror})", "free some, or choose another place"
    kind = NoRoomError if error.errno in _FULL and not copied else StagingError
    return kind(f"{printable(str(path))}: {what}{during}; {way_out}")


_REFUSALS = {
    errno.EROFS: ("the file system is read-only", "choose another place with --to"),
    errno.EACCES: ("permission denied", "choose a directory of your own with --to"),
    errno.EPERM: ("operation not permitted", "choose a directory of your own with --to"),
    errno.ENOTDIR: ("not a directory", "choose another place with --to"),
    errno.ENAMETOOLONG: ("the name is too long", "choose a shorter one with --to"),
    errno.ENOENT: (
        "it was removed by somebody meanwhile",
        "see that nothing cleans up there, and run the same command again",
    ),
    errno.ESTALE: (
        "it was removed by somebody meanwhile",
        "see that nothing cleans up there, and run the same command again",
    ),
}
