"""Files that are not written from front to back, for an output on a network file system."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from pathlib import Path

import pytest

from dataprep.formats import DatasetInfo, WrittenFile
from dataprep.jobs.running import build_directory
from dataprep.jobs.running.build_directory import BuiltFiles, building, remove_build_directories
from dataprep.system import filesystems
from tests.conftest import Cli, Shelf, everyday, hashes, leftovers
from tests.finished_sets import flip
from tests.jobs.conftest import job_of

INFO = DatasetInfo((("n01440764", "tench"),))
TWO = ("--num_shards", 2)


@pytest.fixture
def lustre(shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The output is on Lustre, and there is some scratch; what is compared with was not."""
    for name in ("tfrecord", "lmdb", "hdf5-caffe"):
        shelf(name, *TWO)
    monkeypatch.setattr(build_directory, "filesystem_of", lambda path: "lustre")
    (tmp_path / "scratch").mkdir()
    monkeypatch.setenv("DATAPREP_SCRATCH", str(tmp_path / "scratch"))
    monkeypatch.setattr("dataprep_pipelines.run._PAUSES", (0.0, 0.0))
    return monkeypatch


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Every path that was written somewhere else than beside its final place."""
    found: list[Path] = []
    deliver = BuiltFiles.deliver

    def noted(places: BuiltFiles, written: Sequence[WrittenFile]) -> None:
        found.extend(set(places.paths) - set(places.targets))
        deliver(places, written)

    monkeypatch.setattr(BuiltFiles, "deliver", noted)
    return found


# Where it is built does not depend on what is.
@pytest.mark.parametrize(
    ("name", "build_dir"),
    everyday([("lmdb", ""), ("hdf5-caffe", "mine")], [("lmdb", "mine"), ("hdf5-caffe", "")]),
)
def test_it_is_built_in_scratch_or_where_the_user_says_and_copied(
    cli: Cli,
    shelf: Shelf,
    tmp_path: Path,
    lustre: pytest.MonkeyPatch,
    used: list[Path],
    name: str,
    build_dir: str,
) -> None:
    made = shelf(name, *TWO)
    place = tmp_path / (build_dir or "scratch")
    place.mkdir(exist_ok=True)
    lustre.chdir(tmp_path)
    options = ("--build_dir", build_dir) if build_dir else ()
    result = cli(*made.command(tmp_path / "out", "--workers", 2, *options))
    assert result.code == 0, result
    assert len(used) >= 4
    assert all(place in path.parents for path in used)
    assert hashes(tmp_path / "out") == made.files
    assert leftovers(tmp_path) == []
    assert list(place.iterdir()) == []


@pytest.mark.parametrize(("name", "kind"), [("tfrecord", "lustre"), ("lmdb", "ext4")])
def test_what_is_sequential_or_on_a_local_disk_is_built_in_place(
    cli: Cli,
    shelf: Shelf,
    tmp_path: Path,
    lustre: pytest.MonkeyPatch,
    used: list[Path],
    name: str,
    kind: str,
) -> None:
    lustre.setattr(build_directory, "filesystem_of", lambda path: kind)
    made = shelf(name, *TWO)
    assert cli(*made.command(tmp_path / "out")).code == 0
    assert used == []
    assert hashes(tmp_path / "out") == made.files


def test_without_scratch_it_is_refused_before_anything_is_written(
    cli: Cli, shelf: Shelf, tmp_path: Path, lustre: pytest.MonkeyPatch
) -> None:
    lustre.setattr(filesystems, "filesystem_of", lambda path: "nfs4")
    made = shelf("lmdb", *TWO)
    out = tmp_path / "out"
    result = cli(*made.command(out))
    assert result.code == 1
    assert f"{out} is on lustre" in result.error
    assert "--build_dir" in result.error
    assert hashes(out) == {}
    assert cli(*made.command(out, "--build_dir", tmp_path / "scratch")).code == 0
    assert hashes(out) == made.files


@pytest.mark.parametrize(("name", "number"), [("lmdb", 0), ("hdf5-caffe", 1)])
def test_a_byte_that_flips_in_scratch_is_noticed_and_the_shard_made_again(
    cli: Cli, shelf: Shelf, tmp_path: Path, lustre: pytest.MonkeyPatch, name: str, number: int
) -> None:
    made = shelf(name, *TWO)
    deliver, deliveries = BuiltFiles.deliver, count()

    def damaged(places: BuiltFiles, written: Sequence[WrittenFile]) -> None:
        if next(deliveries) == number:
            flip(places.paths[0])
        deliver(places, written)

    lustre.setattr(BuiltFiles, "deliver", damaged)
    out = tmp_path / "out"
    result = cli(*made.command(out, "--workers", 1))
    assert result.code == 0, result
    assert "trying 1 failed shard again" in result.out
    assert list((tmp_path / "scratch").iterdir()) == []
    assert hashes(out) == made.files


def test_only_what_killed_runs_of_the_same_output_left_is_removed(tmp_path: Path) -> None:
    scratch, mine, other = tmp_path / "scratch", tmp_path / "mine", tmp_path / "other"
    scratch.mkdir()
    (scratch / "somebody's").mkdir()
    jobs = [job_of(out, INFO, sink="lmdb", build_dir=scratch) for out in (mine, other)]
    targets = [tmp_path / "target"]
    with building(targets, jobs[0]) as here, building(targets, jobs[1]) as there:
        for places in (here, there):
            places.paths[0].write_bytes(b"half")
        here.paths[0].parent.with_suffix(".link").symlink_to(there.paths[0].parent)
        remove_build_directories(mine, scratch)
        assert not here.paths[0].parent.exists()
        assert there.paths[0].read_bytes() == b"half"
    assert {path.name.split(".")[-1] for path in scratch.iterdir()} == {"somebody's", "link"}
