"""What to tell the user when the target refuses something."""

from __future__ import annotations

import errno

from dataprep.errors import StagingError
from dataprep.wording import printable

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
