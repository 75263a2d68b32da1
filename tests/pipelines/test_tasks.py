"""What a worker is told: read once a process, withdrawn with the run, refused if it must be."""

from __future__ import annotations

import pickle
import socket
import sys
import types
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

from dataprep.jobs.output.lock import Lease
from dataprep_pipelines import tasks
from dataprep_pipelines.tasks import (
    CannotWorkError,
    TaskSpec,
    WorkerRequirements,
    programs,
    task_file,
)
from tests.steering import add_distribution


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    programs.cache_clear()
    yield
    programs.cache_clear()


@pytest.fixture
def lease(tmp_path: Path) -> Lease:
    return Lease(tmp_path / "lock", "marker", tmp_path / "failure-1.json")


def as_in_another_process(here: TaskSpec) -> TaskSpec:
    """What arrives there, where nothing was read before; small, however large the task."""
    tasks._load.cache_clear()
    sent = pickle.dumps(here)
    assert len(sent) < 1000
    arrived: TaskSpec = pickle.loads(sent)
    return arrived


def test_withdrawn_tasks_are_refused_and_leave_nothing(lease: Lease, tmp_path: Path) -> None:
    task = ["n01440764"] * 100_000
    with task_file(task, lease, None, "write") as here:
        assert as_in_another_process(here).read() == task
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(CannotWorkError, match=r"does not see --out .*put it on"):
        as_in_another_process(here).read()


@pytest.mark.parametrize(
    ("option", "remedy"),
    [("--raw_data_dir", "put it on a file system that all"), ("--build_dir", "make it on every")],
)
def test_a_worker_that_does_not_see_a_place_refuses_until_it_does(
    lease: Lease, tmp_path: Path, option: str, remedy: str
) -> None:
    place = tmp_path / "place"
    with task_file(1, lease, WorkerRequirements({option: place}), "write") as here:
        there = as_in_another_process(here)
        said = f"a worker on {socket.gethostname()} does not see {option} {place}; {remedy}"
        for _ in range(2):
            with pytest.raises(CannotWorkError, match=said):
                there.read()
        place.mkdir()
        assert there.read() == 1


def test_a_worker_without_a_plugin_refuses(lease: Lease, monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("plugin_of_the_launcher")
    exec("class Sink: pass", module.__dict__)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    with task_file(module.Sink(), lease, None, "write") as here:
        monkeypatch.delitem(sys.modules, module.__name__)
        with pytest.raises(CannotWorkError, match=r"plugin_of_the_launcher.*same environment"):
            as_in_another_process(here).read()


class _Intrusion:
    """What somebody else who can write into the output directory could put there."""

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return (pytest.fail, ("it was run",))


def test_tasks_that_somebody_else_wrote_are_not_run(lease: Lease) -> None:
    with task_file(1, lease, None, "write") as here:
        here.path.write_bytes(pickle.dumps((None, _Intrusion())))
        with pytest.raises(CannotWorkError, match="is not what this run wrote"):
            as_in_another_process(here).read()


def test_any_other_version_of_what_makes_bytes_is_refused() -> None:
    here = programs()
    assert here["pillow"] == metadata.version("pillow")
    for name in ("dataprep-shards", "pillow", "simplejpeg", "numpy", "h5py", "lmdb", "Python"):
        assert here[name] != "none"
        said = f"has {name} {here[name]}, this command has 0.0; the bytes .* same environment"
        with pytest.raises(CannotWorkError, match=said):
            WorkerRequirements({}, {**here, name: "0.0"}).check()


def test_a_plugin_that_only_the_launcher_has_is_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "site").mkdir()
    add_distribution(tmp_path / "site", "far-sink", "3", "[dataprep.sinks]\nfar = far:Sink\n")
    with monkeypatch.context() as launcher:
        launcher.syspath_prepend(tmp_path / "site")
        told = WorkerRequirements({})
    programs.cache_clear()
    with pytest.raises(CannotWorkError, match="has far-sink none, this command has 3"):
        told.check()
