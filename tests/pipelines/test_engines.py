"""How graphs run on this machine, which engines there are, and how the work is divided."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dataprep.cli.signals import resumable
from dataprep.errors import PipelineError, StoppedError, UsageError
from dataprep.formats import ShardName
from dataprep_pipelines.runners import STOP, Engine, Parallelism, Round
from dataprep_pipelines.runners.local import (
    LARGE,
    LocalEngine,
    WorkQueue,
    local_parallelism,
    work_queue,
)
from dataprep_pipelines.runners.named import NamedEngine, check
from dataprep_pipelines.tasks import Work
from tests.faults.conftest import eventually

HAPPENED: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_happened_yet() -> Iterator[None]:
    HAPPENED.clear()
    yield
    STOP.set()
    # A worker that was not waited for must not reach the next test.
    eventually(lambda: "started" not in HAPPENED or "cleaned up" in HAPPENED)
    STOP.clear()


class SlowToStop(Work):
    def process(self, elements: object) -> None:
        HAPPENED.append("started")
        STOP.wait(30)
        time.sleep(0.5)  # removing temporary files may take a while
        HAPPENED.append("cleaned up")


class Fails(Work):
    def process(self, elements: object) -> None:
        raise OSError("the disk is on fire")


class Told:
    def stop(self) -> None:
        HAPPENED.append("told")


def run(work: Work, *, watch: Callable[[], None]) -> None:
    LocalEngine(Engine(workers=1)).run(Round([1], work, Parallelism(), watch, Told()))  # type: ignore[arg-type]


def lose_the_terminal() -> None:
    raise ValueError("the terminal is gone")


@pytest.mark.parametrize(
    ("stop", "kind", "said"),
    [
        (lose_the_terminal, ValueError, "the terminal is gone"),
        (lambda: os.kill(os.getpid(), signal.SIGINT), StoppedError, "by SIGINT; try again"),
        (lambda: os.kill(os.getpid(), signal.SIGTERM), StoppedError, "by SIGTERM; try again"),
    ],
)
def test_who_stops_a_run_waits_for_workers_to_clean_up(
    stop: Callable[[], None], kind: type[Exception], said: str
) -> None:
    def watch() -> None:
        if "started" in HAPPENED:
            stop()

    with pytest.raises(kind, match=said), resumable("try again"):
        run(SlowToStop(), watch=watch)
    assert HAPPENED == ["started", "told", "cleaned up"]


def test_a_failure_of_beam_is_one_line() -> None:
    with pytest.raises(PipelineError, match=r"Beam failed: .*the disk is on fire") as caught:
        run(Fails(), watch=lambda: None)
    assert "\n" not in str(caught.value)


def _beam(*options: str) -> Engine:
    return Engine(workers=1, beam_options=options)


@pytest.mark.parametrize(
    ("engine", "said"),
    [
        (_beam("--direct_num_worker=2"), "Beam has no option '--direct_num"),
        (_beam("stray"), "Beam has no option 'stray'"),
        (_beam("--runner=FlinkRunner"), "write it before the `--`"),
        (Engine(workers=1, runner="Nope"), r"--runner Nope: .*use direct, dask, or one of Beam's"),
    ],
)
def test_what_beam_does_not_know_is_a_usage_error(engine: Engine, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        check(engine)


def _named(runner: str, *options: str) -> Engine:
    return Engine(workers=1, runner=runner, beam_options=options)


HERE = "--environment_type=LOOPBACK"
EXTERNAL = "--environment_type=EXTERNAL"
AT = "--job_endpoint=host:8099"


@pytest.mark.parametrize(
    ("engine", "said"),
    [
        (_named("DataflowRunner"), "its workers run in Google's cloud, where they do not see"),
        (_named("PortableRunner"), "expected --job_endpoint=HOST:PORT, where a job service"),
        (_named("PortableRunner", AT), "expected --environment_type=EXTERNAL with"),
        (_named("FlinkRunner", AT, EXTERNAL), "expected --environment_config=HOST:PORT of a"),
        (_named("PortableRunner", "--job_endpoint=host", HERE), "=host: expected HOST:PORT"),
        (
            _named("PortableRunner", "--job_endpoint=localhost:1", HERE),
            r"no job service answers at --job_endpoint=localhost:1 \(.*Connection refused\); start",
        ),
        (_named("FlinkRunner", AT, "--environment_type=DOCKER"), "workers would run in containers"),
        (_named("FlinkRunner", HERE), "needs Java, and there is no program java"),
        (_named("SparkRunner"), "needs Java, and there is no program java"),
        (_named("SparkRunner", "--spark_submit_uber_jar"), "expected --spark_rest_url=HOST:PORT"),
        (
            _named("FlinkRunner", "--flink_job_server_jar=/no/such.jar"),
            "there is no file --flink_job_server_jar=/no/such.jar",
        ),
        (_named("PrismRunner", "--prism_location=/no/prism"), "there is no file --prism_location="),
    ],
)
def test_what_a_runner_of_beam_lacks_is_said_before_anything_is_read(
    engine: Engine, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(UsageError, match=said):
        check(engine)


def test_a_runner_of_beam_that_lacks_nothing_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("localhost", 0)) as server:
        at = f"--job_endpoint=localhost:{server.getsockname()[1]}"
        check(_named("PortableRunner", at, HERE))
        check(_named("FlinkRunner", at, EXTERNAL, "--environment_config=a:1"))
    monkeypatch.setenv("JAVA_HOME", "/opt/java")
    check(_named("FlinkRunner"))
    check(_named("SparkRunner", "--spark_master_url=spark://host:7077", HERE))
    check(_named("PrismRunner"))


def test_a_job_service_may_take_longer_than_beam_waits_for_an_answer() -> None:
    for given, expected in (((), 365 * 86_400), (("--job_server_timeout=5",), 5)):
        with NamedEngine(_named("PortableRunner", AT, HERE, *given)).graph([]) as (pipeline, _):
            assert pipeline.options.get_all_options()["job_server_timeout"] == expected


def test_the_direct_runner_is_this_machine_by_any_of_its_names() -> None:
    for name in ("direct", "DirectRunner", "Direct"):
        check(Engine(workers=1, runner=name))
        assert Engine(workers=1, runner=name).is_local
    assert not Engine(workers=1, runner="FnApiRunner").is_local


SMALL = LARGE - 1


@pytest.mark.parametrize(
    ("workers", "shards", "images", "expected"),
    [
        (1, 9, SMALL, Parallelism(1, 1)),
        (4, 100, SMALL, Parallelism(1, 4)),
        (4, 15, SMALL, Parallelism(1, 4, helpers=4)),
        (5, 100, SMALL, Parallelism(2, 2)),
        (32, 1000, SMALL, Parallelism(8, 4)),
        (32, 8, SMALL, Parallelism(1, 8, helpers=32, helper_processes=True)),
        (1, 1024, LARGE, Parallelism(1, 1)),
        (6, 1024, LARGE, Parallelism(3, 2)),
        (8, 1024, LARGE, Parallelism(4, 2)),
        (32, 1024, LARGE, Parallelism(8, 4)),
        (2, 1, LARGE, Parallelism(1, 1, helpers=2)),
        (32, 8, 0, Parallelism(8, 1)),
    ],
)
def test_workers_are_threads_first_and_processes_then(
    workers: int, shards: int, images: int, expected: Parallelism
) -> None:
    assert local_parallelism(workers, shards, images=images) == expected


# --- the work queue of this machine's processes ---

_TAKE = """
import sys
from dataprep_pipelines.runners.local import WorkQueue
for position in WorkQueue(*sys.argv[1:], tuple(range(300))):
    print(position)
"""
SHARDS = tuple(ShardName("train", number, 300) for number in range(300))


@pytest.mark.thorough  # test_invariance has two of them every day
def test_several_processes_get_every_shard_once() -> None:
    with work_queue(SHARDS) as work:
        command = [sys.executable, "-c", _TAKE, work.path, work.name]
        processes = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(3)]
        taken = [process.communicate()[0].split() for process in processes]
    assert sorted(int(number) for each in taken for number in each) == list(range(300))


def test_a_queue_whose_launcher_is_gone_is_empty_and_another_s_file_is_left_alone(
    tmp_path: Path,
) -> None:
    with work_queue(SHARDS) as work:
        pass
    assert list(work) == []
    (tmp_path / "other").write_bytes(b"somebody's own")
    (tmp_path / "link").symlink_to(tmp_path / "other")
    assert list(WorkQueue(str(tmp_path / "link"), work.name, SHARDS)) == []
    assert (tmp_path / "other").read_bytes() == b"somebody's own"
