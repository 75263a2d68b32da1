"""Replacing or removing a marker, so that of many who want to only one does, and none by mistake.

Exchanging two names in one step would do, but NFS and Lustre refuse it (and with it refuse what
filelock 4 does). So whoever changes the marker first makes a guard file, which only one can, looks
at the marker once more, and renames its own over it. Both appear whole, with their text.
The guard lasts for milliseconds; that of a process killed in between is removed like a marker.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dataprep.build.marker import Marker, Sighting, sight
from dataprep.build.silence import Silence
from dataprep.system.durable_files import partial_path


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
                    _remove(self._path, text)
                return ours
        except OSError:
            _remove(self._path, text)  # a full disk has no room for a guard
            return True

    @contextmanager
    def _guarded(self) -> Iterator[bool]:
        found = sight(self._guard)
        if found is not None:
            self._judge(found)
            yield False
            return
        text = Marker.of_this_process(time.time()).text()
        try:
            _create(self._guard, text)
            made = sight(self._guard)
            yield made is not None and made.text == text
        finally:
            _remove(self._guard, text)

    def _judge(self, guard: Sighting) -> None:
        silent = self._silence.watch(guard, longest_gap=3 * self._pause)
        if is_left_behind(guard.marker, silent, self._patience):
            self._guard.unlink(missing_ok=True)


def is_left_behind(marker: Marker | None, silent: float, patience: float) -> bool:
    """Whether whoever made the file is gone: known to be, or silent for longer than ``patience``.

    A marker without a holder is one that a power cut left, or that is just being written.
    """
    alive = None if marker is None else marker.is_alive()
    return silent >= patience if alive is None else not alive


def _create(path: Path, text: str) -> None:
    """Make the file if there is none; whether this succeeded is to be read from it.

    On NFS a link may be refused as one that exists because it was just made: the answer got lost.
    """
    temporary = partial_path(path)
    try:
        temporary.write_text(text)
        os.link(temporary, path)
    except FileExistsError:
        pass
    except OSError:
        # No hard links here, or a new run has just swept. Any other trouble comes back.
        _create_without_link(path, text)
    finally:
        temporary.unlink(missing_ok=True)


def _create_without_link(path: Path, text: str) -> None:
    with suppress(FileExistsError), path.open("x") as file:
        try:
            file.write(text)
            file.flush()
        except BaseException:
            path.unlink(missing_ok=True)
            raise


def _remove(path: Path, text: str) -> None:
    """Remove the file if it is the one with that text."""
    found = sight(path)
    if found is not None and found.text == text:
        path.unlink(missing_ok=True)
