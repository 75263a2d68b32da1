"""What a worker elsewhere must have in common with the launcher."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import pytest

from dataprep_pipelines.runners.shared_places import CannotWorkError, SharedPlaces, programs
from tests.steering import add_distribution


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    programs.cache_clear()
    yield
    programs.cache_clear()


@pytest.fixture
def places(tmp_path: Path) -> SharedPlaces:
    found = SharedPlaces(tmp_path / "out", tmp_path / "raw", tmp_path / "out" / "lock")
    found.out.mkdir()
    found.raw.mkdir()
    found.witness.touch()
    return found


def test_a_worker_like_the_launcher_may_work(places: SharedPlaces) -> None:
    places.described().check()


@pytest.mark.parametrize(
    ("gone", "message"),
    [
        ("out/lock", "does not see --local_scratch_dir {}/out; put it on a file system that all"),
        ("raw", "does not see --raw_data_dir {}/raw; put it on a file system that all"),
    ],
)
def test_a_place_that_is_not_there_is_named(
    places: SharedPlaces, tmp_path: Path, gone: str, message: str
) -> None:
    (tmp_path / gone).rename(tmp_path / "gone")
    with pytest.raises(CannotWorkError) as caught:
        places.described().check()
    assert f"a worker on {socket.gethostname()} {message.format(tmp_path)}" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", sorted(programs()))
def test_any_other_version_is_refused(places: SharedPlaces, name: str) -> None:
    told = replace(places, programs={**programs(), name: "0.0"})
    with pytest.raises(CannotWorkError, match="same environment") as caught:
        told.check()
    here = programs()[name]
    assert f"has {name} {here}, this command has 0.0; the bytes could differ" in str(caught.value)


def test_all_that_makes_bytes_is_compared() -> None:
    found = programs()
    made_of = {"dataprep", "pillow", "simplejpeg", "numpy", "h5py", "lmdb", "protobuf", "Python"}
    assert made_of < set(found)
    assert found["pillow"] == metadata.version("pillow")
    assert "none" not in {found[name] for name in made_of}


def test_a_plugin_that_only_the_launcher_has_is_missed(
    places: SharedPlaces, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "site").mkdir()
    add_distribution(tmp_path / "site", "far-sink", "3", "[dataprep.sinks]\nfar = far:Sink\n")
    with monkeypatch.context() as launcher:
        launcher.syspath_prepend(tmp_path / "site")
        told = places.described()
    programs.cache_clear()
    with pytest.raises(CannotWorkError, match="has far-sink none, this command has 3"):
        told.check()


def test_a_plugin_that_only_a_worker_has_does_not_matter(
    places: SharedPlaces, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = places.described()
    programs.cache_clear()
    (tmp_path / "site").mkdir()
    add_distribution(tmp_path / "site", "far-sink", "3", "[dataprep.sinks]\nfar = far:Sink\n")
    monkeypatch.syspath_prepend(tmp_path / "site")
    told.check()
