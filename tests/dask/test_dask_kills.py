"""Workers, schedulers and launchers that are killed or stopped: the same bytes, nothing left."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from pathlib import Path

import psutil
import pytest

from tests.conftest import Cli, Made, Result
from tests.dask.conftest import SHARD, SHARDS, SINK, Held, Start
from tests.faults.conftest import commits, eventually
from tests.steering import Steer, check_same, remains

pytestmark = pytest.mark.usefixtures("steered")


# --- workers ---


def test_the_shard_of_a_killed_worker_is_made_by_another(
    cli: Cli, tiny: Made, own_cluster: Start, tmp_path: Path
) -> None:
    cluster = own_cluster(2)
    out = tmp_path / "out"
    steer = Steer.of(out)
    steer.order(SHARD, "SIGKILL")
    result = cli(*tiny.command(out, *SINK, *cluster.options()))
    assert result.code == 0, result
    (killed,) = steer.obeyed(SHARD)
    assert [worker.pid for worker in cluster.workers if worker.poll() == -9] == [killed]
    assert steer.made()[SHARD].isdisjoint({killed})
    check_same(tiny, out)


def test_a_shard_that_kills_every_worker_is_named_when_all_others_are_made(
    cli: Cli, tiny: Made, own_cluster: Start, tmp_path: Path
) -> None:
    cluster = own_cluster(2, nanny=True, SCHEDULER__ALLOWED_FAILURES=1)
    out = tmp_path / "out"
    steer = Steer.of(out)
    steer.order(SHARD, "SIGKILL", times=9)
    command = tiny.command(out, *SINK, *cluster.options())
    result = cli(*command)
    assert result.code == 1
    assert f"{SHARD} failed: 2 workers died while they made it" in result.error
    assert "run the same command again to resume" in result.error
    assert len(steer.obeyed(SHARD)) == 2  # it is not tried in further rounds
    assert len(commits(out)) == SHARDS - 1
    steer.order(SHARD, "SIGKILL", times=0)
    result = cli(*command)
    assert result.code == 0, result
    check_same(tiny, out)


def test_a_worker_that_was_taken_for_dead_does_no_harm_when_it_wakes(
    cli: Cli, tiny: Made, own_cluster: Start, tmp_path: Path
) -> None:
    """Twice: while the run goes on, and when it is over."""
    cluster = own_cluster(4, SCHEDULER__WORKER_TTL="2s", SCHEDULER__WORKER_SATURATION=1.0)
    out = tmp_path / "out"
    steer = Steer.of(out)
    early, late, last = (f"train-0000{number}-of-00006" for number in (0, 1, 5))
    steer.order(early, "SIGSTOP")
    steer.order(late, "SIGSTOP")
    steer.order(last, "wait", record=2)
    process = cli.start(*tiny.command(out, *SINK, *cluster.options()))
    # Two workers are left, and one of them waits: the last one makes all others, and theirs.
    eventually(lambda: len(commits(out)) == SHARDS - 1)
    sleepers = {shard: steer.obeyed(shard)[0] for shard in (early, late)}
    assert len(set(sleepers.values())) == 2
    assert len(list(out.glob("train/.*.partial"))) == 3
    kept = moments([*commits(out), *out.glob("train/t*")])
    os.kill(sleepers[early], signal.SIGCONT)
    eventually(lambda: not list(out.glob(f"train/.{early}*.partial")))
    steer.go()
    result = cli.done(process)
    assert result.code == 0, result
    check_same(tiny, out)
    os.kill(sleepers[late], signal.SIGCONT)
    eventually(lambda: has_ended(sleepers[late]))
    check_same(tiny, out)
    assert moments(kept) == kept
    made = steer.made()
    assert all(made[shard] - {sleeper} for shard, sleeper in sleepers.items())


def moments(paths: Iterable[Path]) -> dict[Path, tuple[int, int]]:
    """When each file was written, and which it is."""
    return {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in paths}


def has_ended(process: int) -> bool:
    """A worker that the scheduler gave up ends when it hears of it."""
    return not psutil.pid_exists(process) or psutil.Process(process).status() == "zombie"


# --- the scheduler ---


def test_a_lost_scheduler_ends_the_run_and_a_new_one_resumes_it(
    cli: Cli, tiny: Made, own_cluster: Start, tmp_path: Path
) -> None:
    cluster = own_cluster(2)
    held = Held.on(cluster, cli, tiny, tmp_path / "out")
    kept = moments(commits(held.out))
    cluster.scheduler.kill()
    result = held.ended()
    assert result.code == 1
    assert f"the Dask scheduler at {cluster.address} was lost" in result.error
    assert "run the same command again" in result.error
    assert_says_nothing_else(result)
    held.steer.go()
    for worker in cluster.workers:
        worker.wait(60)
    assert remains(held.out) == []
    result = cli(*tiny.command(held.out, *SINK, *own_cluster(1).options()))
    assert result.code == 0, result
    assert moments(kept) == kept
    check_same(tiny, held.out)


def assert_says_nothing_else(result: Result) -> None:
    """One line of ours; what Dask thinks of it helps nobody."""
    assert "distributed" not in result.err, result.err
    assert "Error" not in result.err, result.err


# --- the launcher ---


def test_a_signal_ends_the_run_and_the_cluster_can_go_on(
    cli: Cli, tiny: Made, own_cluster: Start, tmp_path: Path
) -> None:
    cluster = own_cluster(2)
    held = Held.on(cluster, cli, tiny, tmp_path / "out")
    os.killpg(held.process.pid, signal.SIGINT)
    result = held.ended()
    assert result.code == 130
    assert "stopped by SIGINT" in result.error
    assert_says_nothing_else(result)
    assert not (held.out / "manifest.json").exists()
    held.steer.go()
    eventually(lambda: remains(held.out) == [])
    assert len(commits(held.out)) == SHARDS - 1  # what was being made was abandoned
    held.resume()
    assert [worker.poll() for worker in cluster.workers] == [None, None]


def test_workers_of_a_killed_launcher_stop_and_the_same_command_resumes(
    cli: Cli, tiny: Made, own_cluster: Start, tmp_path: Path
) -> None:
    cluster = own_cluster(2)
    held = Held.on(cluster, cli, tiny, tmp_path / "out")
    held.process.kill()
    held.ended()
    held.steer.go()
    eventually(lambda: not list(held.out.glob("train/.*.partial")))
    assert len(commits(held.out)) == SHARDS - 1
    held.resume()
    assert [worker.poll() for worker in cluster.workers] == [None, None]


def test_when_the_last_worker_dies_and_none_comes_the_run_ends(
    cli: Cli, tiny: Made, own_cluster: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = own_cluster(1)
    monkeypatch.setattr("dataprep_pipelines.runners.dask._WORKERS_SECONDS", 0.1)
    out = tmp_path / "out"
    Steer.of(out).order(SHARD, "SIGKILL")
    command = tiny.command(out, *SINK, *cluster.options(), "--dask_timeout", 1)
    result = cli(*command)
    assert result.code == 1
    assert "; waiting 1 s for one" in result.out
    assert "had no worker for 1 s; start some (dask worker tcp://127.0.0.1:" in result.error
    assert "; finished shards are kept" in result.error
    cluster.start_workers(1)
    result = cli(*command)
    assert result.code == 0, result
    check_same(tiny, out)
