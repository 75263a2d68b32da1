"""Replacing or removing a marker, so that of many who want to only one does, and none by mistake.

Exchanging two names in one step would do, but NFS and Lustre refuse it (and with it refuse what
filelock 4 does). So whoever changes the marker first makes a guard file with O_EXCL, which works
everywhere, looks at the marker once more, and renames its own over it. The marker is always whole.
The guard lasts for milliseconds; that of a process killed in between is removed like a marker.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dataprep.assembly.marker import Marker, Sighting, sight
from dataprep.assembly.silence import Silence
from dataprep.durable_files import partial_path

_TORN_SECONDS = 10.0


class MarkerChange:
    """Changes one marker file.

    Args:
        path: of the marker.
        patience: seconds of silence after which a guard or marker counts as left behind.
        pause: seconds between two looks of whoever watches.
    """

    def __init__(self, path: Path, *, patience: float, pause: float) -> None:
        self._path = path
        self._guard = path.with_name(f"{path.name}.guard")
        self._patience = patience
        self._pause = pause
        self._silence = Silence()

    def claim(self, before: Sighting | None) -> str | None:
        """Put a marker of this process in the place of what was seen, which must not have changed.

        Returns:
            Its text; None if somebody else was quicker, or is at it: look again.

        Raises:
            OSError: the file system refuses.
        """
        with self._guarded() as ours:
            if not ours or sight(self._path) != before:
                return None
            temporary = partial_path(self._path)
            try:
                return self._publish(temporary)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise

    def _publish(self, temporary: Path) -> str:
        with temporary.open("x") as file:
            text = Marker.of_this_process(os.fstat(file.fileno()).st_mtime).text()
            file.write(text)
        temporary.replace(self._path)
        return text

    def remove(self, text: str) -> bool:
        """Remove the marker if it is the one with that text; False if somebody is at it.

        Raises:
            OSError: the file system refuses.
        """
        try:
            with self._guarded() as ours:
                if ours:
                    self._remove(text)
                return ours
        except OSError:
            self._remove(text)  # a full disk has no room for a guard
            return True

    def _remove(self, text: str) -> None:
        found = sight(self._path)
        if found is not None and found.text == text:
            self._path.unlink(missing_ok=True)

    @contextmanager
    def _guarded(self) -> Iterator[bool]:
        try:
            descriptor = os.open(self._guard, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            self._remove_old_guard()
            yield False
            return
        try:
            try:
                os.write(descriptor, Marker.of_this_process(time.time()).text().encode())
            finally:
                os.close(descriptor)
            yield True
        finally:
            self._guard.unlink(missing_ok=True)

    def _remove_old_guard(self) -> None:
        found = sight(self._guard)
        if found is None:
            return
        silent = self._silence.watch(found, longest_gap=3 * self._pause)
        if is_left_behind(found, silent, self._patience):
            self._guard.unlink(missing_ok=True)


def is_left_behind(sighting: Sighting, silent: float, patience: float) -> bool:
    """Whether whoever made the file is gone: known to be, or silent for longer than ``patience``.

    A marker without a holder is one that a power cut left, or that is just being written.
    """
    marker = sighting.marker
    if marker is None and time.time() - sighting.modified > _TORN_SECONDS:
        return True
    alive = None if marker is None else marker.is_alive()
    return silent >= patience if alive is None else not alive
