"""One run at a time; a dead one is taken over; workers notice that their run is gone."""

from __future__ import annotations

import os
import pickle
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from dataprep.assembly import lock as locks
from dataprep.assembly.lock import Lease, holder, is_running, locked
from dataprep.assembly.workspace import Workspace
from dataprep.errors import LockedError


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    found = Workspace(tmp_path)
    found.make()
    return found


HOLD = """
import sys
from pathlib import Path
from dataprep.assembly.lock import locked
from dataprep.assembly.workspace import Workspace
with locked(Workspace(Path(sys.argv[1]))):
    print("held", flush=True)
    sys.stdin.read()
"""


def start_holder(workspace: Workspace) -> subprocess.Popen[str]:
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(workspace.out)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "held\n"
    return child


def stop_holder(child: subprocess.Popen[str]) -> None:
    child.kill()
    child.communicate()


def test_a_second_run_is_refused_naming_host_and_process(workspace: Workspace) -> None:
    child = start_holder(workspace)
    try:
        message = f"process {child.pid} on {socket.gethostname()}"
        with pytest.raises(LockedError, match=message), locked(workspace):
            pytest.fail("two runs hold the directory")
        assert is_running(workspace) is True
    finally:
        stop_holder(child)


def test_a_killed_holder_is_taken_over(workspace: Workspace) -> None:
    child = start_holder(workspace)
    stop_holder(child)
    assert workspace.lock.exists()
    assert is_running(workspace) is False
    with locked(workspace):
        assert holder(workspace) == (socket.gethostname(), os.getpid())
    assert not workspace.lock.exists()


def test_a_holder_on_another_host_is_never_taken_over(workspace: Workspace) -> None:
    workspace.lock.write_text("1\nsome-other-host\n")
    with pytest.raises(LockedError, match="process 1 on some-other-host"), locked(workspace):
        pytest.fail("took over another host's lock")
    assert is_running(workspace) is None


def test_a_lease_survives_pickling_and_is_lost_with_the_lock(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "_CHECK_SECONDS", 0.0)
    with locked(workspace) as lease:
        ours: Lease = pickle.loads(pickle.dumps(lease))
        assert not ours.lost()
    assert ours.lost()


def test_a_lease_is_lost_when_its_launcher_was_killed(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "_CHECK_SECONDS", 0.0)
    child = start_holder(workspace)
    lease = Lease(workspace.lock, workspace.lock.read_text(), workspace.new_failure_file())
    assert not lease.lost()
    stop_holder(child)
    assert lease.lost()


def test_a_lease_is_lost_when_another_run_took_over(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "_CHECK_SECONDS", 0.0)
    with locked(workspace) as lease:
        workspace.lock.write_text(f"{os.getpid()}\nanother\n")
        assert lease.lost()


def test_a_lease_is_lost_when_another_worker_failed(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "_CHECK_SECONDS", 0.0)
    with locked(workspace) as lease:
        assert not lease.lost()
        lease.failure.write_text("{}")
        assert lease.lost()
