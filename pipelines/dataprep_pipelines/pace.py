"""How often to look at what takes long to look at."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

_SHARE = 0.05  # of the time may go into looking


class Pace:
    """Spaces looks out, so that they take no more than a twentieth of the time.

    Listing a million commit records takes seconds, and a metadata server should not pay for a
    progress bar.
    """

    def __init__(self) -> None:
        self._next = 0.0

    def is_due(self) -> bool:
        """Whether to look now."""
        return time.monotonic() >= self._next

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Look inside; what it takes decides when the next look is due."""
        began = time.monotonic()
        yield
        ended = time.monotonic()
        self._next = ended + (ended - began) / _SHARE
