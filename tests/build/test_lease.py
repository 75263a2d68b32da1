"""Workers notice that their run is gone: at once on its host, by its silence elsewhere."""

from __future__ import annotations

import pickle
import time
from dataclasses import replace

import pytest

from dataprep.build.lease import Lease
from dataprep.build.lock import locked
from dataprep.build.marker import Marker, sight, touch
from dataprep.build.silence import Silence
from dataprep.build.workspace import Workspace
from tests.build.markers import claim_of, dead_process, wait_until

FOREVER = 1000.0


def lease_of(workspace: Workspace, marker: str, **options: float) -> Lease:
    workspace.lock.write_text(marker)
    return Lease(workspace.lock, marker, workspace.new_failure_file(), **options)


def copied(lease: Lease) -> Lease:
    copy: Lease = pickle.loads(pickle.dumps(lease))
    assert copy == lease
    return copy


def test_a_lease_survives_pickling_and_is_lost_with_the_lock(workspace: Workspace) -> None:
    with locked(workspace) as lease:
        ours = replace(copied(lease), look_seconds=0.0)
        assert not ours.lost()
    assert ours.lost()


def test_a_lease_looks_only_now_and_then_unless_it_is_asked_to(workspace: Workspace) -> None:
    with locked(workspace) as lease:
        ours = replace(lease, look_seconds=FOREVER)
        assert not ours.lost()
    assert not ours.lost()
    assert ours.lost_now()
    assert ours.lost()


def test_a_lease_outlives_heartbeats(workspace: Workspace) -> None:
    with locked(workspace, beat_seconds=0.01) as lease:
        first = sight(workspace.lock)
        wait_until(lambda: sight(workspace.lock) != first)
        assert not lease.lost_now()


def test_a_lease_is_lost_at_once_when_its_launcher_was_killed(workspace: Workspace) -> None:
    lease = lease_of(workspace, claim_of(process=dead_process()), lease_seconds=FOREVER)
    assert lease.lost()
    assert lease.over()


def test_a_lease_is_lost_when_another_run_took_over(workspace: Workspace) -> None:
    with locked(workspace) as lease:
        workspace.lock.write_text(claim_of("n1"))
        assert lease.lost_now()


def test_a_lease_is_lost_when_another_worker_failed(workspace: Workspace) -> None:
    with locked(workspace) as lease:
        assert not lease.lost_now()
        lease.failure.write_text("{}")
        assert lease.lost_now()
        assert lease.over()
        assert not lease.taken_over_now()


def test_a_launcher_on_this_host_may_be_silent(workspace: Workspace) -> None:
    lease = lease_of(workspace, claim_of(), look_seconds=0.0, lease_seconds=0.0)
    assert not lease.lost()
    assert not lease.lost()


def test_a_launcher_on_another_host_that_falls_silent_is_dead(workspace: Workspace) -> None:
    lease = lease_of(workspace, claim_of("n1"), look_seconds=0.01, lease_seconds=0.2)
    assert not lease.lost_now()
    wait_until(lambda: copied(lease).lost())  # every task of a worker brings its own
    assert not lease.over()  # it may only be suspended


def test_a_launcher_that_was_only_suspended_finds_its_workers_again(workspace: Workspace) -> None:
    lease = lease_of(workspace, claim_of("n1"), look_seconds=0.01, lease_seconds=0.2)
    wait_until(lease.lost)
    assert touch(workspace.lock, lease.marker)
    assert not lease.lost_now()
    assert not lease.lost()


def test_a_lease_is_over_for_ever_when_the_marker_was_another_s(workspace: Workspace) -> None:
    lease = lease_of(workspace, claim_of())
    assert not lease.lost()
    assert not lease.over()
    workspace.lock.write_text(claim_of("n1"))
    assert not lease.over()  # it has not looked
    assert lease.lost_now()
    assert lease.over()
    workspace.lock.write_text(lease.marker)
    assert lease.lost_now()
    assert lease.over()


def test_a_lease_is_over_when_it_is_told_so(workspace: Workspace) -> None:
    lease = lease_of(workspace, claim_of("n1"), look_seconds=0.01, lease_seconds=0.0)
    wait_until(lease.lost)
    assert not lease.over()
    copied(lease).lose()
    assert lease.over()
    assert touch(workspace.lock, lease.marker)
    assert lease.lost_now()
    assert lease.over()


def test_trouble_with_the_file_system_changes_nothing(workspace: Workspace) -> None:
    lease = lease_of(workspace, claim_of("n1"), look_seconds=0.01, lease_seconds=0.1)
    assert not lease.lost_now()
    away = workspace.private.rename(workspace.out / "away")
    workspace.private.write_text("not a directory")
    assert not lease.lost_now()
    workspace.private.unlink()
    away.rename(workspace.private)
    wait_until(lease.lost_now)
    workspace.private.rename(away)
    workspace.private.write_text("not a directory")
    assert lease.lost_now()
    assert not lease.over()


def test_a_launcher_on_another_host_that_shows_signs_of_life_is_alive(workspace: Workspace) -> None:
    lease = lease_of(workspace, claim_of("n1"), look_seconds=0.0, lease_seconds=0.1)
    for _ in range(10):
        time.sleep(0.03)
        assert touch(workspace.lock, lease.marker)
        assert not lease.lost_now()


def test_who_looks_rarely_counts_a_launcher_as_dead_later(workspace: Workspace) -> None:
    marker = claim_of("n1")
    rarely = lease_of(workspace, marker, look_seconds=FOREVER, lease_seconds=0.01)
    for _ in range(5):
        time.sleep(0.02)
        assert not rarely.lost_now()


def test_time_in_which_nobody_could_look_hardly_counts(workspace: Workspace) -> None:
    workspace.lock.write_text(claim_of("n1"))
    found = sight(workspace.lock)
    assert found is not None
    silence = Silence()
    assert silence.watch(found, longest_gap=0.01) == 0
    time.sleep(0.1)
    assert silence.watch(found, longest_gap=0.01) == pytest.approx(0.01)
    time.sleep(0.02)
    assert silence.watch(found, longest_gap=0.01) == pytest.approx(0.02)
    touch(workspace.lock, found.text)
    touched = sight(workspace.lock)
    assert touched is not None
    assert silence.watch(touched, longest_gap=0.01) == 0


def test_another_s_marker_is_never_touched(workspace: Workspace) -> None:
    workspace.lock.write_text(claim_of("n1"))
    before = sight(workspace.lock)
    assert not touch(workspace.lock, claim_of("n2"))
    assert sight(workspace.lock) == before


def test_a_marker_says_what_was_written_into_it() -> None:
    marker = Marker.of_this_process(since=1700000000.123)
    assert Marker.parse(marker.text()) == marker
    assert marker.is_alive() is True
