"""How far a shard that is being written has come, for whoever watches, on any host.

A format with one file a split would otherwise say nothing for hours. These notes are not
evidence of anything: they are written without care and ignored by everything but displays.
"""

from __future__ import annotations

import time
from contextlib import suppress

from dataprep.build.workspace import Workspace
from dataprep.sinks import ShardName

_SECONDS = 2.0  # between two notes, at least


class ShardProgress:
    """Notes the number of images of one shard, now and then.

    Args:
        workspace: the output directory.
        shard: which shard.
        seconds: between two notes. Of thousands of workers, each should write less often: every
            note is a few requests to the file system's metadata server.
    """

    def __init__(self, workspace: Workspace, shard: ShardName, seconds: float = _SECONDS) -> None:
        self._path = workspace.progress / str(shard)
        self._images = 0
        self._noted = False
        self._seconds = max(seconds, _SECONDS)
        self._next = time.monotonic() + self._seconds

    def advance(self) -> None:
        """One more image."""
        self._images += 1
        now = time.monotonic()
        if now >= self._next:
            self._next = now + self._seconds
            self._noted = True
            with suppress(OSError):
                self._path.write_text(str(self._images))

    def finish(self) -> None:
        """The shard is committed, or given up."""
        if self._noted:  # most shards are done before the first note is due
            with suppress(OSError):
                self._path.unlink(missing_ok=True)


def images_under_way(workspace: Workspace) -> int:
    """How many images of unfinished shards have been written."""
    total = 0
    with suppress(OSError):
        for path in workspace.progress.iterdir():
            with suppress(OSError, ValueError):
                total += int(path.read_text())
    return total


class ProgressWatch:
    """The same for somebody who asks often: looks no more often than notes are written.

    A file system's metadata server should not pay for a progress bar.

    Args:
        workspace: the output directory.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._images = 0
        self._next = 0.0

    def images(self, *, now: bool) -> int:
        """What `images_under_way` says; with ``now`` it is looked up however short the time."""
        time_now = time.monotonic()
        if now or time_now >= self._next:
            self._next = time_now + _SECONDS
            self._images = images_under_way(self._workspace)
        return self._images


def forget_progress(workspace: Workspace) -> None:
    """Remove what a killed run noted; call only while holding the lock."""
    for path in workspace.progress.iterdir():
        path.unlink(missing_ok=True)
