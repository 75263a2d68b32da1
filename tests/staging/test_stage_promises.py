"""What ``dataprep stage`` promises to jobs that meet in a target, and to those that read there."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.conftest import Cli, Result
from tests.staging.conftest import ONE_STREAM, AsNode, Call, Forks, eventually, free_port
from tests.staging.staged_sets import (
    PRIVATE,
    Sets,
    arrived,
    flip,
    is_sealed,
    named,
    refused,
    shards,
    staged,
)

pytestmark = pytest.mark.usefixtures("outside", "unflushed")

Damage = Callable[[Path], None]

_HERE = "has come this far"
# Waits until a file is there: when it asks for the lock, or when it has read so many files.
_LOCKING_WAITS = f"""
import os, time
import dataprep.staging.copier as copier
from dataprep.system.throttle import Bandwidth
def wait(check=lambda: None):
    print({_HERE!r}, flush=True)
    while not os.path.exists(GO):
        check()
        time.sleep(0.005)
def node_lock(*words, lock=copier.node_lock, **options):
    wait()
    return lock(*words, **options)
def take(self, count, check=lambda: None, left=iter(range(FILES))):
    if next(left, None) is None:
        wait(check)
copier.node_lock = node_lock
"""
_READING_WAITS = _LOCKING_WAITS.replace("copier.node_lock = node_lock", "Bandwidth.take = take")
_OTHER_BYTES = "import dataprep.staging.copier as it; it.digest_of = lambda landed: 64 * '0'"


def killed_midway(forks: Forks, source: Path, to: Path, files: int) -> None:
    """A call that has finished so many files, and is killed in the middle of the next one."""
    patch = f"{ONE_STREAM}GO, FILES = {str(to / 'never')!r}, {files}\n{_READING_WAITS}"
    call = forks.start("stage", source, "--to", to, patch=patch)
    eventually(lambda: _HERE in call.said())
    call.send(signal.SIGKILL)
    assert call.done().code == -signal.SIGKILL


def job(forks: Forks, number: int, *words: object) -> Result:
    """``dataprep stage`` in the batch script of a Slurm job."""
    return forks.start("stage", *words, environment={"SLURM_JOB_ID": str(number)}).done()


def rank(node: int) -> dict[str, str]:
    """One of two nodes, as a loop of ssh says it."""
    return {"RANK": str(node), "WORLD_SIZE": "2"}


def step(node: int) -> dict[str, str]:
    """The same of a Slurm step."""
    numbers = {"PROCID": node, "NODEID": node, "STEP_ID": 0, "STEP_NUM_NODES": 2}
    return {f"SLURM_{name}": str(number) for name, number in numbers.items()}


def start_two(
    forks: Forks, source: Path, place: Path, *more: object, patches: Sequence[str], **job: str
) -> list[Call]:
    """A call on two nodes that meet, with a patch each."""
    words = ("stage", source, "--rendezvous", f"127.0.0.1:{free_port()}", *more, "--to")
    return [
        forks.start(
            *words,
            place / f"node{node}",
            patch=patch,
            environment={**job, **(step(node) if job else rank(node))},
        )
        for node, patch in enumerate(patches)
    ]


def sentinel(to: Path) -> tuple[dict[str, object], dict[str, str | None]]:
    """What is said of the copy, and the SHA-256 of each of its files, if it is known."""
    said = json.loads((to / PRIVATE / "complete.json").read_text())
    return said, {path: sha256 for path, _, sha256, _ in said["files"]}


def write_files(place: Path, **sizes: int) -> None:
    place.mkdir(exist_ok=True)
    for name, size in sizes.items():
        (place / name).write_bytes(os.urandom(size))


def inodes(to: Path) -> dict[str, int]:
    """Another one each time that a file is copied."""
    return {name: (to / name).stat().st_ino for name in arrived(to)}


def test_jobs_that_come_to_shared_targets_in_opposite_order_do_not_wait_for_each_other(
    forks: Forks, source: Path, tmp_path: Path
) -> None:
    begin = f"GO, FILES = {str(tmp_path / 'go')!r}, 0\n"
    # Job 1 is the first one on node 0, job 2 on node 1.
    first, second, call = begin + _READING_WAITS, begin + _LOCKING_WAITS, (forks, source, tmp_path)
    calls = start_two(*call, "--shared", patches=[first, second], SLURM_JOB_ID="1")
    calls += start_two(*call, "--shared", patches=[second, first], SLURM_JOB_ID="2")
    eventually(lambda: all(_HERE in call.said() for call in calls))
    (tmp_path / "go").touch()
    results = [call.done() for call in calls]
    assert [result.code for result in results] == [0] * 4, results
    for to in (tmp_path / "node0", tmp_path / "node1"):
        assert arrived(to) == named(source)
        assert is_sealed(to)


def test_nodes_that_hold_different_bytes_both_have_no_copy(
    forks: Forks, source: Path, tmp_path: Path
) -> None:
    for call in start_two(forks, source, tmp_path, patches=["", _OTHER_BYTES]):
        refused(call.done(), "node 0 (", "node 1 (", "different bytes", "--clean")
    shards = {name: digest for name, digest in named(source).items() if name != "manifest.json"}
    assert arrived(tmp_path / "node0") == arrived(tmp_path / "node1") == shards
    assert not any(is_sealed(tmp_path / name) for name in ("node0", "node1"))


def test_what_a_job_uses_is_mended_and_not_changed_by_another_one_even_without_its_sentinel(
    forks: Forks, sets: Sets, tmp_path: Path
) -> None:
    source, to = sets.first.out, tmp_path / "to"
    assert job(forks, 1, source, "--to", to, "--shared").code == 0
    (to / PRIVATE / "complete.json").unlink()  # as one leaves it who is killed while mending
    before = inodes(to)
    for more in ((source, "--split", "train"), (sets.anew.out,)):
        refused(job(forks, 3, *more, "--to", to, "--shared"), to, "used as it is by slurm-1")
        assert inodes(to) == before
    assert not is_sealed(to)
    # With the same selection it is mended, and stays shared.
    shards(to)[0].unlink()
    mended = job(forks, 3, source, "--to", to, "--shared")
    assert "in 1 file copied" in mended.out, mended
    assert sentinel(to)[0]["shared"] is True
    assert "used by slurm-1" in job(forks, 3, "--to", to, "--clean").out
    assert arrived(to) == named(source)


def test_the_first_job_that_uses_a_copy_made_outside_of_any_owns_it(
    cli: Cli, forks: Forks, source: Path, tmp_path: Path
) -> None:
    to = tmp_path / "to"
    staged(cli, source, to)
    assert "nothing to copy" in job(forks, 1, source, "--to", to).out
    refused(job(forks, 2, source, "--to", to), to, "slurm-1", "slurm-2")
    refused(job(forks, 2, "--to", to, "--clean"), to, "slurm-1", "slurm-2")
    assert arrived(to) == named(source)
    assert job(forks, 1, "--to", to, "--clean").code == 0
    assert not to.exists()


@pytest.mark.parametrize("more", [(), ("--share", "node")], ids=["whole", "share"])
@pytest.mark.parametrize("name", ["manifest.json", "part.json"])
def test_a_users_own_label_in_the_target_is_refused_and_left(
    cli: Cli, as_node: AsNode, source: Path, tmp_path: Path, name: str, more: tuple[str, ...]
) -> None:
    to = tmp_path / "to"
    to.mkdir(mode=0o700)
    (to / name).write_text("{}")
    as_node(0, 2)
    refused(
        cli("stage", source, "--to", to, "--rendezvous", "none", *more), to / name, "in the way"
    )
    assert list(arrived(to)) == [name]
    assert (to / name).read_text() == "{}"


def test_a_part_that_is_changed_is_at_no_moment_taken_for_the_whole(
    cli: Cli, as_node: AsNode, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    to, there = tmp_path / "to", []
    told = ("--share", "node", "--rendezvous", "none")
    as_node(0, 2)
    staged(cli, source, to, *told)
    fsync = os.fsync

    def look(descriptor: int) -> None:
        there.append([name for name in ("manifest.json", "part.json") if (to / name).exists()])
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", look)
    as_node(1, 2)
    staged(cli, source, to, *told)
    assert ["manifest.json"] not in there
    assert ["part.json"] in there


@pytest.mark.parametrize("old", [False, True], ids=["new", "over an old copy"])
def test_a_copy_that_is_not_whole_does_not_look_like_a_data_set(
    cli: Cli, forks: Forks, sets: Sets, tmp_path: Path, old: bool
) -> None:
    source, to = tmp_path / "source", tmp_path / "to"
    shutil.copytree(sets.first.out, source)
    if old:
        staged(cli, source, to)
        shutil.rmtree(source)
        shutil.copytree(sets.anew.out, source)
    killed_midway(forks, source, to, 3)
    assert not (to / "manifest.json").exists()
    refused(
        cli("verify", to),
        f"{to}: no manifest.json here, so not a finished data set, nor a whole copy",
    )
    staged(cli, source, to)
    assert cli("verify", to).code == 0


def test_files_of_a_plain_directory_keep_their_modes_and_times(
    forks: Forks, tmp_path: Path
) -> None:
    plain, to, modes = tmp_path / "plain", tmp_path / "to", {"run": 0o755, "secret": 0o600}
    write_files(plain, run=100, secret=0)
    for moment, (name, mode) in enumerate(modes.items(), 1_000_000_000):
        (plain / name).chmod(mode)
        os.utime(plain / name, ns=(moment, moment))
    assert forks.run("stage", plain, "--to", to, patch="os.umask(0o077)").code == 0
    for name, mode in modes.items():
        assert (to / name).stat().st_mode & 0o7777 == mode
        assert (to / name).stat().st_mtime_ns == (plain / name).stat().st_mtime_ns


def test_files_of_a_plain_directory_that_have_landed_are_not_copied_again(
    cli: Cli, forks: Forks, tmp_path: Path
) -> None:
    plain, to = tmp_path / "plain", tmp_path / "to"
    write_files(plain, a=1000, b=1000, c=1000, d=1000, e=1000)
    killed_midway(forks, plain, to, 2)
    landed = {name: inode for name, inode in inodes(to).items() if not name.startswith(".")}
    assert len(landed) == 2
    assert "in 3 files copied" in staged(cli, plain, to).out
    assert landed.items() < inodes(to).items()
    for touched in (to / "b", plain / "d"):
        before = inodes(to)
        flip(touched)
        assert "in 1 file copied" in staged(cli, plain, to).out
        assert arrived(to) == arrived(plain)
        assert {name for name, _ in inodes(to).items() ^ before.items()} == {touched.name}


def test_a_file_may_become_a_directory(cli: Cli, tmp_path: Path) -> None:
    plain, to = tmp_path / "plain", tmp_path / "to"
    write_files(plain, x=10)
    staged(cli, plain, to)
    (plain / "x").unlink()
    write_files(plain / "x", a=20)
    staged(cli, plain, to)
    assert arrived(to) == arrived(plain)
    assert "nothing to copy" in staged(cli, plain, to).out


def empty(path: Path) -> None:
    path.write_bytes(b"")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


@pytest.mark.parametrize("damage", [flip, cut, empty])
@pytest.mark.parametrize(
    ("note", "step"), [("complete", 0), ("planned", 0), ("outcome", 0), ("lease", 1)]
)
def test_notes_that_are_damaged_are_healed_by_the_same_command(
    cli: Cli, forks: Forks, source: Path, tmp_path: Path, note: str, step: int, damage: Damage
) -> None:
    """A lease by the next step: whoever finds that its own has succeeded looks no further."""
    to = tmp_path / "to"

    def stage(step: int) -> Result:
        environment = {
            "SLURM_JOB_ID": "1",
            "SLURM_STEP_ID": str(step),
            **dict.fromkeys(("SLURM_PROCID", "SLURM_NODEID"), "0"),
            "SLURM_STEP_NUM_NODES": "1",
        }
        words = ("stage", source, "--to", to, "--shared")
        return forks.start(*words, environment=environment).done()

    assert stage(0).code == 0
    (damaged,) = (to / PRIVATE).glob(f"{note}*")
    damage(damaged)
    assert cli("stage", "--to", to, "--status").code == (note == "complete")
    result = stage(step)
    assert result.code == 0, result
    assert "copied" not in result.out.replace("nothing to copy", "")
    assert arrived(to) == named(source)
    status = cli("stage", "--to", to, "--status")
    assert (status.code, "used by: slurm-1\n" in status.out) == (0, True), status
    assert job(forks, 1, "--to", to, "--clean").code == 0
    assert not to.exists()
