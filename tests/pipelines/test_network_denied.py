"""On one machine nothing is ever asked of the network: Beam would download another runner."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import DATAPREP, Made, hashes

# Brings loopback up if asked to, sees that nothing else can be reached, and becomes the command.
_INSIDE = """
import fcntl, os, socket, struct, sys

loopback, *command = sys.argv[1:]
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
    if loopback == "up":
        request = struct.pack("16sh", b"lo", 1 | 64)  # IFF_UP, IFF_RUNNING
        fcntl.ioctl(any_socket, 0x8914, request)  # SIOCSIFFLAGS
    for address, wanted in (("127.0.0.1", loopback == "up"), ("192.0.2.1", False)):
        try:
            any_socket.connect((address, 9))  # asks for a route
            assert wanted, address
        except OSError:
            assert not wanted, address
os.execvp(command[0], command)
"""


@pytest.fixture(scope="module")
def alone() -> list[str]:
    """Words before a command that leave it no network at all."""
    unshare = shutil.which("unshare")
    if unshare is None:
        pytest.skip("needs unshare (util-linux)")
    words = [unshare, "--net", *([] if os.geteuid() == 0 else ["--map-root-user"])]
    done = subprocess.run([*words, "true"], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no network namespace can be made here: {done.stderr.strip()}")
    return [*words, sys.executable, "-c", _INSIDE]


@pytest.mark.parametrize(("workers", "loopback"), [(1, "down"), (2, "down"), (5, "up")])
def test_a_run_needs_no_network(
    tiny: Made, alone: list[str], tmp_path: Path, workers: int, loopback: str
) -> None:
    """Several processes talk over loopback; one needs not even that."""
    command = tiny.command(tmp_path, "--workers", workers)
    done = subprocess.run(
        [*alone, loopback, *DATAPREP, *command],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert hashes(tmp_path) == tiny.files
