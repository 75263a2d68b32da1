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

from dataprep.jobs.lock import Lease
from dataprep_pipelines import tasks
from dataprep_pipelines.tasks import (
    CannotWorkError,
    TaskSpec,
    WorkerRequirements,
    programs,
    task_file,
)
from tests.steering import add_distribution


@pytest.fixture
def lease(tmp_path: Path) -> Lease:
    return Lease(tmp_path / "lock", "marker", tmp_path / "failure-1.json")


def as_in_another_process(here: TaskSpec) -> TaskSpec:
    """What arrives there, where nothing was read before."""
    tasks._load.cache_clear()
    arrived = pickle.loads(pickle.dumps(here))
    assert isinstance(arrived, TaskSpec)
    return arrived


def test_a_specification_is_small_however_large_the_task(lease: Lease) -> None:
    with task_file(["n01440764"] * 100_000, lease, None, "write") as here:
        assert len(pickle.dumps(here)) < 1000


def test_withdrawn_tasks_are_refused_and_leave_nothing(lease: Lease, tmp_path: Path) -> None:
    with task_file(1, lease, None, "write") as here:
        pass
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(CannotWorkError, match=r"does not see --out .*put it on"):
        as_in_another_process(here).read()


def test_a_worker_that_is_not_as_the_launcher_refuses(lease: Lease, tmp_path: Path) -> None:
    places = WorkerRequirements({"--raw_data_dir": tmp_path / "no such raw data"})
    with task_file(1, lease, places, "write") as here:
        there = as_in_another_process(here)
        for _ in range(2):  # it is asked again, since it may have been mended
            with pytest.raises(CannotWorkError, match="no such raw data"):
                there.read()
        (tmp_path / "no such raw data").mkdir()
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


def test_tasks_that_somebody_else_wrote_are_not_run(tmp_path: Path) -> None:
    lease = Lease(tmp_path / "lock", "marker", tmp_path / "failure-1.json")
    with task_file(1, lease, None, "write") as here:
        here.path.write_bytes(pickle.dumps((None, _Intrusion())))
        with pytest.raises(CannotWorkError, match="is not what this run wrote"):
            as_in_another_process(here).read()


# --- what a worker elsewhere must have in common with the launcher ---


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    programs.cache_clear()
    yield
    programs.cache_clear()


@pytest.mark.parametrize("option", ["--raw_data_dir", "--build_dir"])
def test_a_place_that_is_not_there_is_named(tmp_path: Path, option: str) -> None:
    WorkerRequirements({option: tmp_path}).check()
    with pytest.raises(CannotWorkError) as caught:
        WorkerRequirements({option: tmp_path / "gone"}).check()
    remedy = "put it on a file system that all" if option != "--build_dir" else "make it on every"
    said = f"a worker on {socket.gethostname()} does not see {option} {tmp_path}/gone; {remedy}"
    assert said in str(caught.value)


@pytest.mark.parametrize("name", ["pillow", "Python"])
def test_any_other_version_is_refused(name: str) -> None:
    with pytest.raises(CannotWorkError, match="same environment") as caught:
        WorkerRequirements({}, {**programs(), name: "0.0"}).check()
    here = programs()[name]
    assert f"has {name} {here}, this command has 0.0; the bytes could differ" in str(caught.value)


def test_all_that_makes_bytes_is_compared() -> None:
    found = programs()
    made_of = {
        *("dataprep-shards", "pillow", "simplejpeg", "numpy", "h5py"),
        *("lmdb", "protobuf", "Python"),
    }
    assert made_of < set(found)
    assert found["pillow"] == metadata.version("pillow")
    assert "none" not in {found[name] for name in made_of}


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
