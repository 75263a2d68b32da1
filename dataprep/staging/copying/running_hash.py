"""The SHA-256 of a file that passes by, and what is said if it is another one than expected."""

from __future__ import annotations

import hashlib
from pathlib import Path

from dataprep.errors import StagingError
from dataprep.staging.inventory import SourceFile
from dataprep.system.messages import printable

_ZEROS = bytes(1 << 20)


class RunningHash:
    """Hashes what it is given, holes of sparse files included.

    Args:
        wanted: otherwise nothing is computed, and there is no hash in the end.
    """

    def __init__(self, *, wanted: bool) -> None:
        self._digest = hashlib.sha256() if wanted else None

    @property
    def wanted(self) -> bool:
        """Whether there will be one."""
        return self._digest is not None

    def update(self, data: memoryview | bytes) -> None:
        """What comes next."""
        if self._digest is not None:
            self._digest.update(data)

    def skip(self, count: int) -> None:
        """A hole comes next: zeros."""
        if self._digest is not None:
            for done in range(0, count, len(_ZEROS)):
                self._digest.update(memoryview(_ZEROS)[: count - done])

    def hex(self) -> str | None:
        """The hash; None if it was not wanted."""
        return self._digest.hexdigest() if self._digest is not None else None


def check_source_hash(source: Path, file: SourceFile, found: str | None) -> None:
    """Compare what was read with what is known of a file; either may be None.

    Raises:
        StagingError: they differ.
    """
    if None not in (found, file.sha256) and found != file.sha256:
        raise StagingError(
            f"{printable(str(source / file.path))} has SHA-256 {found}, expected {file.sha256}: it "
            f"was damaged or changed; run dataprep verify {printable(str(source))}"
        )
