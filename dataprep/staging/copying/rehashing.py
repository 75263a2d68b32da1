"""Files that are in a target already: are they what belongs there?"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Sequence

from dataprep.staging.copying.rereading import open_sha256
from dataprep.staging.copying.streams import run_streams
from dataprep.staging.copying.watch import Watch
from dataprep.staging.inventory import SourceFile
from dataprep.staging.landed import Landed
from dataprep.staging.target.beneath import opened_parent


def rehash_files(
    target: int,
    files: Sequence[SourceFile],
    *,
    streams: int,
    watch: Watch,
    on_good: Callable[[Landed], None],
) -> list[SourceFile]:
    """Hash what an earlier call left in the target.

    Args:
        target: an open descriptor of the directory.
        files: what to look at.
        streams: how many files at the same time.
        watch: counts what has been hashed; stops all streams.
        on_good: called for every file that is what it must be, one at a time.

    Returns:
        The others, in the order given: to be copied.

    Raises:
        DataprepError: what the watch was stopped with.
    """
    good: set[str] = set()
    telling = threading.Lock()

    def look(file: SourceFile) -> None:
        landed = rehash(target, file, watch)
        if landed is not None:
            with telling:
                good.add(file.path)
                on_good(landed)

    largest_first = sorted(files, key=lambda file: -file.bytes)
    run_streams(largest_first, streams, watch, lambda: look)
    return [file for file in files if file.path not in good]


def rehash(target: int, file: SourceFile, watch: Watch) -> Landed | None:
    """Look at one of them.

    Args:
        target: an open descriptor of the directory.
        file: what it must be; without a known hash nothing is believed.
        watch: counts what has been hashed; stops it.

    Returns:
        The file; None if it is absent, no regular file, not what it must be, or unreadable:
        copying it again will tell what is wrong.
    """
    if file.sha256 is None:
        return None
    try:
        with opened_parent(target, file.path) as (parent, name):
            # Without O_NONBLOCK, a named pipe in a file's place would be waited for.
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            descriptor = os.open(name, flags, dir_fd=parent)
    except OSError:
        return None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size != file.bytes:
            return None
        if open_sha256(descriptor, file.bytes, watch.advance) != file.sha256:
            return None
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return Landed(file.path, file.bytes, file.sha256, found.st_mtime_ns)
