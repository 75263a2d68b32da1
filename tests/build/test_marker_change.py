"""The guard of whoever changes the marker: one has it at a time, and a dead one's is removed."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from dataprep.build.lock import holder, locked
from dataprep.build.marker import Sighting, sight
from dataprep.build.marker_change import MarkerChange
from dataprep.build.workspace import Workspace
from dataprep.errors import LockedError
from tests.build.markers import claim_of, dead_process

SHORT = 0.5  # of one that has to be found dead
LONG = 10.0  # of one that has not


def test_a_guard_of_a_killed_process_is_removed(workspace: Workspace) -> None:
    guard = workspace.private / "lock.guard"
    guard.write_text(claim_of(process=dead_process()))
    with locked(workspace, lease_seconds=SHORT):
        assert not guard.exists()


def test_a_guard_left_by_another_host_is_removed_after_a_while(workspace: Workspace) -> None:
    guard = workspace.private / "lock.guard"
    guard.write_text(claim_of("n1"))
    with locked(workspace, lease_seconds=SHORT):
        assert not guard.exists()


def test_a_marker_is_left_while_somebody_is_changing_it(workspace: Workspace) -> None:
    guard = workspace.private / "lock.guard"
    with locked(workspace, lease_seconds=SHORT):
        guard.write_text(claim_of())
    assert guard.exists()
    assert workspace.lock.exists()


@pytest.mark.parametrize("content", ["", claim_of("n1")])
def test_no_clock_makes_a_guard_look_old(workspace: Workspace, content: str) -> None:
    guard = workspace.private / "lock.guard"
    guard.write_text(content)
    os.utime(guard, (1, 1))
    assert MarkerChange(workspace.lock, patience=LONG, pause=0.1).claim(None) is None
    assert guard.exists()
    assert not workspace.lock.exists()


def test_an_empty_guard_is_removed_after_a_while(workspace: Workspace) -> None:
    guard = workspace.private / "lock.guard"
    guard.write_text("")
    with locked(workspace, lease_seconds=SHORT):
        assert not guard.exists()


def test_a_guard_appears_with_its_text(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard = workspace.private / "lock.guard"
    appeared: list[Sighting | None] = []
    link = os.link

    def looking(source: Path, target: Path) -> None:
        assert not guard.exists()
        link(source, target)
        appeared.append(sight(guard))

    monkeypatch.setattr(os, "link", looking)
    assert MarkerChange(workspace.lock, patience=LONG, pause=0.1).claim(None)
    (found,) = appeared
    assert found is not None
    assert found.marker is not None
    assert found.marker.process == os.getpid()


@pytest.mark.parametrize("linked", [False, True])
def test_a_guard_does_without_links_and_with_lost_answers(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, linked: bool
) -> None:
    link = os.link

    def fail(source: Path, target: Path) -> None:
        if linked:  # NFS asks again when the answer was lost, and finds it done
            link(source, target)
            raise FileExistsError(errno.EEXIST, "File exists")
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", fail)
    with locked(workspace):
        held = holder(workspace)
        assert held is not None
        assert held.process == os.getpid()
        with pytest.raises(LockedError), locked(workspace):
            pytest.fail("two runs hold the directory")
    assert list(workspace.private.glob("*lock*")) == []
    assert list(workspace.private.glob(".*lock*")) == []


def test_who_was_suspended_with_the_guard_removes_no_other_s(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard = workspace.private / "lock.guard"
    theirs = claim_of("n1")
    change = MarkerChange(workspace.lock, patience=LONG, pause=0.1)
    publish = change._publish

    def interrupted(temporary: Path) -> str:
        guard.write_text(theirs)
        return publish(temporary)

    monkeypatch.setattr(change, "_publish", interrupted)
    change.claim(None)
    assert guard.read_text() == theirs
