"""Beam is run in a thread of its own, and waited for even when the main thread is stopped."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import apache_beam as beam
import pytest

from dataprep.cli.stopping import resumable
from dataprep.errors import DataprepError, PipelineError, SinkError, StoppedError, UsageError
from dataprep_pipelines.runners import STOP, Engine, RunEndsError, Share, check
from dataprep_pipelines.runners.explaining import explained
from dataprep_pipelines.runners.local import LocalRunning
from dataprep_pipelines.runners.named import NamedRunning
from dataprep_pipelines.runners.share import LARGE, local_share

HAPPENED: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_happened_yet() -> Iterator[None]:
    HAPPENED.clear()
    yield
    STOP.set()
    end = time.monotonic() + 10
    while "started" in HAPPENED and "cleaned up" not in HAPPENED and time.monotonic() < end:
        time.sleep(0.01)  # a worker that was not waited for must not reach the next test
    STOP.clear()


class SlowToStop(beam.DoFn):  # type: ignore[misc]  # Beam ships no types
    def process(self, element: int) -> None:
        HAPPENED.append("started")
        STOP.wait(30)
        time.sleep(0.5)  # removing temporary files may take a while
        HAPPENED.append("cleaned up")


class Fails(beam.DoFn):  # type: ignore[misc]  # Beam ships no types
    def process(self, element: int) -> None:
        raise OSError("the disk is on fire")


def slow(pipeline: beam.Pipeline) -> None:
    _ = pipeline | beam.Create([1]) | beam.ParDo(SlowToStop())


def nothing() -> None:
    pass


def run(build: Callable[[beam.Pipeline], None], *, watch: Callable[[], None]) -> None:
    running = LocalRunning(Engine(1))
    running.run(build, Share(), watch=watch, stop=lambda: HAPPENED.append("told"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_waits_for_workers_to_clean_up(number: signal.Signals) -> None:
    def send() -> None:
        while "started" not in HAPPENED:
            time.sleep(0.01)
        time.sleep(0.05)  # the main thread is waiting for Beam by then
        os.kill(os.getpid(), number)

    sender = threading.Thread(target=send)
    sender.start()
    with pytest.raises(StoppedError, match=f"stopped by {number.name}; try again"):  # noqa: SIM117
        with resumable("try again"):
            run(slow, watch=nothing)
    sender.join()
    assert HAPPENED == ["started", "told", "cleaned up"]


def test_an_error_while_watching_stops_the_run() -> None:
    def watch() -> None:
        if "started" in HAPPENED:
            raise ValueError("the terminal is gone")

    with pytest.raises(ValueError, match="the terminal is gone"):
        run(slow, watch=watch)
    assert HAPPENED == ["started", "told", "cleaned up"]


def test_a_failure_of_beam_is_one_line() -> None:
    def fail(pipeline: beam.Pipeline) -> None:
        _ = pipeline | beam.Create([1]) | beam.ParDo(Fails())

    with pytest.raises(PipelineError, match=r"Beam failed: .*the disk is on fire") as caught:
        run(fail, watch=nothing)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("option", ["--no_such_option=1", "--direct_num_worker=2", "stray"])
def test_an_option_beam_does_not_know_is_a_usage_error(option: str) -> None:
    with pytest.raises(UsageError, match=f"Beam has no option '{option}'"):
        check(Engine(1, beam_options=(option,)))


@pytest.mark.parametrize(
    "option", ["--flink_master=h:1", "--spark_master_url=spark://h:1", "--job_port=1"]
)
def test_an_option_of_another_runner_is_a_usage_error(option: str) -> None:
    with pytest.raises(UsageError, match=f"{option} is for another .* but --runner is direct"):
        check(Engine(1, beam_options=("--direct_num_workers=2", option)))


@pytest.mark.parametrize(
    ("runner", "options", "said"),
    [
        ("DataflowRunner", (), "Missing required option: project."),
        ("interactive", (), "install Beam's extra: interactive"),
        ("no_such_module.Runner", (), "No module named 'no_such_module'; use direct, dask, or"),
        ("FlinkRunner", (), "needs Java for Beam's job server"),
        ("SparkRunner", ("--spark_master_url=spark://h:1",), "--job_endpoint=HOST:PORT"),
    ],
)
def test_what_a_runner_lacks_is_one_line_before_any_work(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, runner: str, options: tuple[str], said: str
) -> None:
    if runner == "interactive" and find_spec("IPython") is not None:
        pytest.skip("Beam's extra interactive is installed")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(UsageError) as caught:
        check(Engine(1, runner, options))
    assert str(caught.value).startswith(f"--runner {runner}")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_job_server_elsewhere_needs_no_java(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    check(Engine(1, "FlinkRunner", ("--job_endpoint=h:1",)))


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        (
            "Unable to fetch remote job server jar at https://x/y.jar: <urlopen error>. " * 9,
            "Beam's job server is not on this host and cannot be downloaded; stage its jar",
        ),
        (
            "Unable to fetch remote prism binary at https://x/y.zip: <urlopen error>",
            "Beam's Prism is not on this host and cannot be downloaded; stage it",
        ),
        ("first\n" + "last " * 200, "Beam failed: last last"),
    ],
)
def test_what_a_runner_says_is_cut_to_what_helps(said: str, meant: str) -> None:
    found = str(NamedRunning(Engine(1, "FlinkRunner")).explained(RuntimeError(said)))
    assert meant in found
    assert "https" not in found
    assert "\n" not in found
    assert len(found) < 350


@pytest.mark.parametrize("error", [SinkError("OUT: no space left"), PipelineError("a: b")])
def test_a_worker_s_error_arrives_through_any_engine(error: DataprepError) -> None:
    """As an exception of its class, with Beam's words added; or in the text of a traceback."""
    sent = RunEndsError.of(error)
    arrived = pickle.loads(pickle.dumps(type(sent)(f"{sent} [while running 'Write/Write']")))
    text = RuntimeError(f"Traceback:\n  File x\nsomewhere.RunEndsError: {arrived}\n\nmore")
    for found in map(explained, (arrived, text)):
        assert type(found) is type(error)
        assert str(found) == str(error)


def test_a_runner_beam_does_not_know_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match=r"--runner Nope: .*use direct, dask, or one of Beam's"):
        check(Engine(1, "Nope"))


def test_the_runner_is_not_an_option_for_beam() -> None:
    with pytest.raises(UsageError, match="write it before the `--`"):
        check(Engine(1, beam_options=("--runner=FlinkRunner",)))


@pytest.mark.parametrize("name", ["direct", "DirectRunner", "Direct"])
def test_the_direct_runner_is_this_machine_by_any_of_its_names(name: str) -> None:
    check(Engine(1, name))
    assert Engine(1, name).is_local
    assert not Engine(1, "FnApiRunner").is_local


@pytest.mark.parametrize(
    ("workers", "shards", "share"),
    [
        (1, 9, Share(1, 1)),
        (4, 100, Share(1, 4)),
        (4, 15, Share(1, 4, helpers=4)),
        (5, 100, Share(2, 2)),
        (32, 1000, Share(8, 4)),
        (32, 8, Share(1, 8, helpers=32, helper_processes=True)),
    ],
)
def test_workers_are_threads_first_and_processes_then(
    workers: int, shards: int, share: Share
) -> None:
    assert local_share(workers, shards, images=LARGE - 1) == share
    assert local_share(workers, shards, images=0).helpers == 0


@pytest.mark.parametrize(
    ("workers", "shards", "share"),
    [
        (1, 1024, Share(1, 1)),
        (2, 1024, Share(2, 1)),
        (4, 1024, Share(4, 1)),
        (6, 1024, Share(3, 2)),
        (8, 1024, Share(4, 2)),
        (32, 1024, Share(8, 4)),
        (2, 1, Share(1, 1, helpers=2)),
    ],
)
def test_a_large_job_is_worth_processes(workers: int, shards: int, share: Share) -> None:
    assert local_share(workers, shards, images=LARGE) == share


@pytest.mark.parametrize("workers", range(1, 70))
def test_a_large_job_uses_as_many_cores_as_a_small_one(workers: int) -> None:
    small, large = (local_share(workers, 1024, images=images) for images in (1, LARGE))
    assert large.processes * large.lanes >= small.processes * small.lanes
    assert large.processes >= small.processes
