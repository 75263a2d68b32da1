"""A thread that shows others that this process lives, and notices when it was given up for dead."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from dataprep.build.marker import touch


@contextmanager
def beating(
    path: Path, text: str, *, seconds: float, on_loss: Callable[[], None]
) -> Iterator[None]:
    """Touch a marker now and then.

    Args:
        path: of the marker.
        text: of this process's claim.
        seconds: between two touches.
        on_loss: called once, by the thread, when the marker has become another's or is gone: this
            process was suspended, or cut off from the file system, and another took over.
    """
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(seconds):
            try:
                if touch(path, text):
                    continue
            except OSError:
                continue  # a file system that hiccups is no reason to give up
            if not ended.is_set():
                on_loss()
            return

    thread = threading.Thread(target=beat, name="dataprep-heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        # Not for ever: it may hang in a file system that does.
        thread.join(timeout=seconds)
