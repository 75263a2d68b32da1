"""What a file system has run out of."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from dataprep.staging.directory import target_error
from dataprep.system.durable_files import storage_error


def refused(number: int) -> OSError:
    return OSError(number, os.strerror(number))


@pytest.mark.parametrize(
    ("number", "files_left", "said"),
    [
        (errno.ENOSPC, 5, "no space left"),
        (errno.ENOSPC, 0, "it can hold no more files, though 4.1 GB are free (no inode is left;"),
        (errno.EDQUOT, 5, "the quota, of bytes or of files, is used up (Disk quota exceeded)"),
    ],
)
def test_bytes_files_and_quotas_are_told_apart(
    number: int, files_left: int, said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    room = SimpleNamespace(
        f_files=9, f_favail=files_left, f_bavail=1_000_000, f_frsize=4096, f_bsize=4096
    )
    monkeypatch.setattr(os, "statvfs", lambda _: room)
    assert said in str(target_error(refused(number), tmp_path))
    assert said in str(storage_error(refused(number), tmp_path))
