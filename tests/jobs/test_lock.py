"""One run at a time; a dead one is taken over, on any host; a run and its workers notice it."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dataprep.errors import LockedError
from dataprep.jobs.output import lock
from dataprep.jobs.output.lock import (
    Lease,
    Sighting,
    Silence,
    check_held,
    claim_marker,
    is_alive,
    locked,
    sight,
)
from dataprep.jobs.output.workspace import Workspace
from dataprep_schemas.state import Marker
from tests.jobs.markers import claim_of, dead_process, wait_until

FOREVER = 1000.0
# Of a holder that has to be found dead, and of one that has to be found alive on a busy machine.
SHORT = 0.5
LONG = 10.0


# Says what became of it, holds until its input ends or its lease is lost, and says which.
HOLD = """
import socket, sys, threading, time
from pathlib import Path
from dataprep.jobs.output.lock import locked
from dataprep.jobs.output.workspace import Workspace
from dataprep.errors import LockedError
out, host, lease_seconds = sys.argv[1:]
if host:
    socket.gethostname = lambda: host
try:
    with locked(
        Workspace(Path(out)), beat_seconds=0.1, lease_seconds=float(lease_seconds)
    ) as lease:
        print("held", flush=True)
        reader = threading.Thread(target=sys.stdin.read, daemon=True)
        reader.start()
        while reader.is_alive() and not lease.lost(now=True):
            time.sleep(0.02)
        print("lost" if reader.is_alive() else "ended", flush=True)
except LockedError as error:
    print("refused", flush=True)
"""


def start_holder(
    workspace: Workspace, host: str = "", *, lease_seconds: float = LONG
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", HOLD, str(workspace.out), host, str(lease_seconds)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def read_line(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


@contextmanager
def holding(workspace: Workspace, host: str = "") -> Iterator[subprocess.Popen[str]]:
    """A process that holds the directory, on this host or on one of that name."""
    child = start_holder(workspace, host)
    try:
        assert read_line(child) == "held"
        yield child
    finally:
        stop(child)


def stop(child: subprocess.Popen[str]) -> None:
    child.kill()
    child.communicate()


def marker_of(workspace: Workspace) -> Marker | None:
    found = sight(workspace.lock)
    return None if found is None else found.marker


def held_by(workspace: Workspace) -> tuple[str, int] | None:
    marker = marker_of(workspace)
    return None if marker is None else (marker.host, marker.process)


def is_running(workspace: Workspace) -> bool | None:
    marker = marker_of(workspace)
    assert marker is not None
    return is_alive(marker)


# --- on one host ---


def test_a_second_run_is_refused_at_once_naming_host_and_process(workspace: Workspace) -> None:
    told: list[str] = []
    with holding(workspace) as child:
        message = f"process {child.pid} on {socket.gethostname()}"
        with pytest.raises(LockedError, match=message), locked(workspace, report=told.append):
            pytest.fail("two runs hold the directory")
        assert is_running(workspace) is True
    assert told == []


@pytest.mark.parametrize("waited_for", [True, False])
def test_a_killed_holder_is_taken_over_at_once(workspace: Workspace, waited_for: bool) -> None:
    with holding(workspace) as child:
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # still a zombie
        if waited_for:
            stop(child)
            assert is_running(workspace) is False
        assert workspace.lock.exists()
        told: list[str] = []
        with locked(workspace, report=told.append):
            assert held_by(workspace) == (socket.gethostname(), os.getpid())
            assert is_running(workspace) is True
    assert told == []
    assert not workspace.lock.exists()


def test_a_process_that_got_a_dead_holder_s_number_is_not_taken_for_it(
    workspace: Workspace,
) -> None:
    workspace.lock.write_text(claim_of(start="12345"))
    assert is_running(workspace) is False
    with locked(workspace):
        pass


@pytest.mark.parametrize(
    ("content", "seconds"),
    [("", -1e9), ("", 1000), ("{}", -1e9), ('{"process":', 1000), ("4711\nh\n", 0), ("\0\0", 0)],
)
def test_a_torn_marker_is_watched_and_taken_over_whatever_its_time(
    workspace: Workspace, content: str, seconds: float
) -> None:
    workspace.lock.write_text(content)
    os.utime(workspace.lock, (time.time() + seconds,) * 2)
    assert marker_of(workspace) is None
    told: list[str] = []
    with locked(workspace, report=told.append, lease_seconds=SHORT):
        assert held_by(workspace) == (socket.gethostname(), os.getpid())
    assert len(told) == 1
    assert "an unknown process" in told[0]


def test_a_file_that_cannot_be_removed_does_not_keep_the_lock(workspace: Workspace) -> None:
    with locked(workspace) as lease:
        lease.failure.mkdir()
    assert not workspace.lock.exists()


# --- between hosts ---


def test_a_dead_holder_on_another_host_is_taken_over_after_a_while(workspace: Workspace) -> None:
    with holding(workspace, "n1") as child:
        stop(child)
        assert is_running(workspace) is None
        told: list[str] = []
        with locked(workspace, report=told.append, lease_seconds=SHORT):
            assert held_by(workspace) == (socket.gethostname(), os.getpid())
        assert told == [
            f"{workspace.out}: held by process {child.pid} on n1; "
            "waiting up to 0 s to see whether it is alive"
        ]
    assert list(workspace.private.glob("*lock*")) == []


def test_a_living_holder_on_another_host_is_not(workspace: Workspace) -> None:
    with holding(workspace, "n1") as child:
        message = f"another run is working here: process {child.pid} on n1; wait for it"
        told: list[str] = []
        with (
            pytest.raises(LockedError, match=message),
            locked(workspace, report=told.append, lease_seconds=LONG),
        ):
            pytest.fail("took over another host's lock")
        assert len(told) == 1
        assert held_by(workspace) == ("n1", child.pid)


@pytest.mark.parametrize("machine", ["another-boot.4026531836", "another-container.1"])
def test_a_holder_on_a_namesake_of_this_host_is_watched(workspace: Workspace, machine: str) -> None:
    workspace.lock.write_text(claim_of(machine=machine, process=dead_process()))
    assert is_running(workspace) is None
    told: list[str] = []
    with locked(workspace, report=told.append, lease_seconds=SHORT):
        pass
    assert len(told) == 1


def test_of_many_that_find_a_dead_holder_one_takes_over(workspace: Workspace) -> None:
    workspace.lock.write_text(claim_of("n1"))
    children = [start_holder(workspace, f"n{2 + i}", lease_seconds=1) for i in range(5)]
    try:
        assert sorted(map(read_line, children)) == ["held", *["refused"] * 4]
    finally:
        for child in children:
            stop(child)


@pytest.mark.parametrize("change", ["touched", "replaced", "removed"])
def test_a_marker_that_changed_since_it_was_judged_is_left_alone(
    workspace: Workspace, change: str
) -> None:
    workspace.lock.write_text(claim_of("n1"))
    judged = sight(workspace.lock)
    if change == "touched":
        os.utime(workspace.lock, (1, 1))
    elif change == "replaced":
        workspace.lock.write_text(claim_of("n2"))
    else:
        workspace.lock.unlink()
    now = sight(workspace.lock)
    assert claim_marker(workspace.lock, judged) is None
    assert sight(workspace.lock) == now


# --- a run that was given up ---


def test_a_suspended_holder_finds_that_it_was_taken_over_and_does_no_harm(
    workspace: Workspace,
) -> None:
    with holding(workspace, "n1") as child:
        child.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, child.pid, os.WSTOPPED)
        with locked(workspace, lease_seconds=SHORT) as lease:
            ours = workspace.lock.read_text()
            lease.failure.write_text("{}")  # of a worker of the new run
            child.send_signal(signal.SIGCONT)
            assert read_line(child) == "lost"
            assert child.wait() == 0
            assert workspace.lock.read_text() == ours
            assert lease.failure.exists()
    assert list(workspace.private.glob("*lock*")) == []


def test_a_launcher_that_was_given_up_is_told_so(workspace: Workspace) -> None:
    with locked(workspace) as lease:
        check_held(lease)
        workspace.lock.write_text(claim_of("n1"))
        with pytest.raises(LockedError, match="another run took this directory over"):
            check_held(lease)


# --- several that would take the marker's place ---


def test_who_comes_later_stops_who_has_not_finished(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was suspended after its last look: at any time, by any number of others."""
    theirs = []

    def woken(path: Path) -> Sighting | None:
        found = sight(path)
        monkeypatch.setattr(lock, "sight", sight)
        theirs.append(claim_marker(workspace.lock, found))
        return found

    monkeypatch.setattr(lock, "sight", woken)
    assert claim_marker(workspace.lock, None) is None
    assert theirs == [workspace.lock.read_text()]
    assert list(workspace.private.glob("*lock*")) == [workspace.lock]


def test_who_comes_at_the_same_moment_stops_the_other_or_is_stopped(workspace: Workspace) -> None:
    """Both have written their markers before either removes the other's."""
    both = threading.Barrier(2)

    class Slow(type(workspace.lock)):  # type: ignore[misc]  # of this platform
        def glob(self, *args: Any, **options: Any) -> Iterator[Path]:
            both.wait(60)
            return iter(list(super().glob(*args, **options)))

    with ThreadPoolExecutor() as pool:
        claims = [pool.submit(claim_marker, Slow(workspace.lock), None) for _ in range(2)]
        made = [text for claim in claims if (text := claim.result()) is not None]
    assert len(made) < 2
    found = sight(workspace.lock)
    assert [found.text] == made if found else not made
    assert list(workspace.private.glob("*lock*")) == [workspace.lock] * len(made)


# --- the leases of workers ---


def lease_of(workspace: Workspace, marker: str, **options: float) -> Lease:
    workspace.lock.write_text(marker)
    return Lease(workspace.lock, marker, workspace.new_failure_file(), **options)


def copied(lease: Lease) -> Lease:
    copy: Lease = pickle.loads(pickle.dumps(lease))
    assert copy == lease
    return copy


def touch(lease: Lease) -> None:
    found = sight(lease.path, touch_if=lease.marker)
    assert found is not None
    assert sight(lease.path) != found


def test_a_lease_looks_now_and_then_and_is_lost_with_the_lock(workspace: Workspace) -> None:
    with locked(workspace) as lease:
        often, rarely = (replace(copied(lease), look_seconds=each) for each in (0.0, FOREVER))
        assert not often.lost()
        assert not rarely.lost()
    assert not rarely.lost()
    assert often.lost()
    assert rarely.lost()  # they know of each other


def test_a_lease_is_lost_at_once_when_its_launcher_was_killed(workspace: Workspace) -> None:
    lease = lease_of(workspace, claim_of(process=dead_process()), lease_seconds=FOREVER)
    assert lease.lost()
    assert lease.over()


def test_a_lease_is_over_but_not_taken_over_when_a_worker_failed(workspace: Workspace) -> None:
    with locked(workspace) as lease:
        assert not lease.lost(now=True)
        lease.failure.write_text("{}")
        assert lease.lost(now=True)
        assert lease.over()
        check_held(lease)


def test_a_launcher_elsewhere_that_falls_silent_is_dead_until_it_wakes(
    workspace: Workspace,
) -> None:
    lease = lease_of(workspace, claim_of("n1"), look_seconds=0.01, lease_seconds=0.2)
    assert not lease.lost(now=True)
    wait_until(lambda: copied(lease).lost())  # every task of a worker brings its own
    assert not lease.over()  # it may only be suspended
    touch(lease)
    assert not lease.lost(now=True)
    assert not lease.lost()


@pytest.mark.parametrize("silent", [False, True])
def test_trouble_with_the_file_system_changes_nothing(workspace: Workspace, silent: bool) -> None:
    lease = lease_of(workspace, claim_of("n1"), look_seconds=0.01, lease_seconds=0.1)
    if silent:
        wait_until(lambda: lease.lost(now=True))
    else:
        assert not lease.lost(now=True)
    workspace.private.rename(workspace.out / "away")
    workspace.private.write_text("not a directory")
    assert lease.lost(now=True) is silent
    assert not lease.over()
    with pytest.raises(NotADirectoryError):  # who cannot see the lock changes nothing
        check_held(lease)


def test_time_in_which_nobody_could_look_hardly_counts(workspace: Workspace) -> None:
    lease = lease_of(workspace, claim_of("n1"))
    found = sight(workspace.lock)
    assert found is not None
    silence = Silence(0.01)
    assert silence.of(found) == 0
    time.sleep(0.1)
    assert silence.of(found) == pytest.approx(0.01)
    time.sleep(0.02)
    assert silence.of(found) == pytest.approx(0.02)
    touch(lease)
    touched = sight(workspace.lock)
    assert touched is not None
    assert silence.of(touched) == 0
