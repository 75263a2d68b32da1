"""A worker's orders: read once a process, withdrawn with the run, refused where they cannot be."""

from __future__ import annotations

import hashlib
import pickle
import sys
import types
from pathlib import Path

import pytest

from dataprep.archives import reading
from dataprep.build.lock import Lease
from dataprep_pipelines import orders
from dataprep_pipelines.orders import Orders, given
from dataprep_pipelines.runners.shared_places import CannotWorkError, SharedPlaces


@pytest.fixture
def lease(tmp_path: Path) -> Lease:
    return Lease(tmp_path / "lock", "marker", tmp_path / "failure-1.json")


def as_in_another_process(given_here: Orders) -> Orders:
    """What arrives there, where nothing was read before."""
    orders._READ.clear()
    arrived = pickle.loads(pickle.dumps(given_here))
    assert isinstance(arrived, Orders)
    return arrived


def test_what_was_ordered_arrives_and_all_threads_share_it(lease: Lease) -> None:
    with given({"classes": ["a", "b"]}, lease, None, "write") as here:
        there = as_in_another_process(here)
        assert there.read() == {"classes": ["a", "b"]}
        assert there.read() is there.read()


def test_a_task_is_small_however_much_is_ordered(lease: Lease) -> None:
    with given(["n01440764"] * 100_000, lease, None, "write") as here:
        assert len(pickle.dumps(here)) < 1000


def test_withdrawn_orders_are_refused_and_leave_nothing(lease: Lease, tmp_path: Path) -> None:
    with given(1, lease, None, "write") as here:
        pass
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(CannotWorkError, match=r"does not see --local_scratch_dir .*put it on"):
        as_in_another_process(here).read()


def test_orders_are_withdrawn_in_the_launcher_too(lease: Lease) -> None:
    with given(1, lease, None, "write") as here:
        assert here.read() == 1
    with pytest.raises(CannotWorkError):
        here.read()


def test_who_has_read_them_may_go_on_when_they_are_withdrawn(lease: Lease) -> None:
    with given(1, lease, None, "write") as here:
        there = as_in_another_process(here)
        assert there.read() == 1
        kept = dict(orders._READ)
    orders._READ.update(kept)  # a worker elsewhere is not told
    assert there.read() == 1  # its lease tells it that the run is over


def test_a_worker_that_is_not_as_the_launcher_refuses(lease: Lease, tmp_path: Path) -> None:
    places = SharedPlaces(tmp_path, tmp_path / "no such raw data", tmp_path)
    with given(1, lease, places, "write") as here:
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
    with given(module.Sink(), lease, None, "write") as here:
        monkeypatch.delitem(sys.modules, module.__name__)
        with pytest.raises(CannotWorkError, match=r"plugin_of_the_launcher.*same environment"):
            as_in_another_process(here).read()


def test_raw_data_are_opened_anew_for_every_run(
    lease: Lease, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / "raw.tar"
    archive.write_bytes(b"old")
    opened = reading._open_archive(str(archive))
    with given(1, lease, None, "write") as here:
        as_in_another_process(here).read()
        assert reading._open_archive(str(archive)) is not opened
        assert here.read() == 1
        again = reading._open_archive(str(archive))
        assert here.read() == 1
        assert reading._open_archive(str(archive)) is again


def test_a_process_keeps_the_orders_of_a_few_runs(tmp_path: Path) -> None:
    for number in range(20):
        lease = Lease(tmp_path / "lock", "marker", tmp_path / f"failure-{number}.json")
        path = tmp_path / f"orders-{number}"
        content = pickle.dumps((None, number))
        path.write_bytes(content)
        assert Orders(path, lease, hashlib.sha256(content).hexdigest()).read() == number
    assert len(orders._READ) == 8
    orders._READ.clear()


class _Intrusion:
    """What somebody else who can write into the output directory could put there."""

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return (pytest.fail, ("it was run",))


def test_orders_that_somebody_else_wrote_are_not_run(tmp_path: Path) -> None:
    lease = Lease(tmp_path / "lock", "marker", tmp_path / "failure-1.json")
    with given(1, lease, None, "write") as here:
        here.path.write_bytes(pickle.dumps((None, _Intrusion())))
        with pytest.raises(CannotWorkError, match="is not what this run wrote"):
            as_in_another_process(here).read()
