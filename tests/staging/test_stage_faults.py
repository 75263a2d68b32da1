"""``dataprep stage`` when something goes wrong: one line, an exit code, and nothing half-done."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Cli
from tests.staging.conftest import ONE_STREAM, Forks, Midway, eventually
from tests.staging.staged_sets import (
    arrived,
    flip,
    is_sealed,
    named,
    partials,
    refused,
    shards,
    staged,
    times,
    write_plain,
)

pytestmark = pytest.mark.usefixtures("outside", "unflushed")

# Believes that there is room, as if another process had filled the disk afterwards.
LYING = (
    "import dataprep.staging.copier as copier; from dataprep.system.filesystems import Space;"
    "copier.space_of = lambda place: Space(1 << 40, 4096)"
)


def midway(forks: Forks, source: Path, to: Path) -> Midway:
    return Midway(forks, "stage", source, to=to)


# --- killed ---


def test_a_copier_that_is_killed_midway_leaves_no_sentinel_and_its_shards_are_used_again(
    cli: Cli, forks: Forks, source: Path, tmp_path: Path
) -> None:
    to = tmp_path / "to"
    call = midway(forks, source, to).call
    call.send(signal.SIGKILL)
    assert call.done().code == -signal.SIGKILL
    assert not is_sealed(to)
    assert partials(to)
    finished = shards(to)
    before = times(to)
    for path in finished:
        assert arrived(to)[f"train/{path.name}"] == named(source)[f"train/{path.name}"]
    result = staged(cli, source, to)
    assert "there already" in result.out
    assert arrived(to) == named(source)
    for path in finished:
        assert times(to)[f"train/{path.name}"] == before[f"train/{path.name}"]


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)]
)
def test_a_signal_stops_a_copier_that_clears_up(
    cli: Cli, forks: Forks, source: Path, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    to = tmp_path / "to"
    call = midway(forks, source, to).call
    call.send(number)
    refused(call.done(), f"stopped by {number.name}", "run the same command again", code=code)
    assert not is_sealed(to)
    assert partials(to) == []
    assert arrived(to).items() < named(source).items()
    assert "there already" in staged(cli, source, to).out


# --- the source ---


def test_a_truncated_or_vanished_source_file_is_named(cli: Cli, mine: Path, tmp_path: Path) -> None:
    short, gone, *_ = shards(mine)
    whole = short.read_bytes()
    short.write_bytes(whole[:-1])
    lengths = (f"{len(whole) - 1:,}", f"{len(whole):,}")
    refused(cli("stage", mine, "--to", tmp_path / "0"), short, *lengths)
    short.write_bytes(whole)
    gone.unlink()
    refused(cli("stage", mine, "--to", tmp_path / "1"), gone)
    for to in (tmp_path / "0", tmp_path / "1"):
        assert not is_sealed(to)
        assert partials(to) == []


def test_a_source_that_vanishes_while_it_is_copied_ends_the_call(
    forks: Forks, mine: Path, tmp_path: Path
) -> None:
    to = tmp_path / "to"
    call = midway(forks, mine, to)
    mine.rename(tmp_path / "elsewhere")
    refused(call.go_on(), mine)
    assert not is_sealed(to)
    assert partials(to) == []


def test_a_plain_source_that_changes_while_it_is_copied_is_noticed(
    forks: Forks, tmp_path: Path
) -> None:
    plain, to = tmp_path / "plain", tmp_path / "to"
    write_plain(plain)
    words = ("stage", plain, "--to", to, "--bandwidth", "200000")
    call = forks.start(*words, patch=ONE_STREAM)
    eventually(lambda: partials(to) or call.poll() is not None)
    flip(plain / "data.mdb")
    flip(plain / "sub" / "a.bin")
    refused(call.done(), plain / "data.mdb", "once nobody writes to it")
    assert not is_sealed(to)


def test_what_cannot_be_a_source_is_refused_and_nothing_is_made(
    cli: Cli, mine: Path, tmp_path: Path
) -> None:
    to = tmp_path / "to"
    (tmp_path / "empty").mkdir()
    refused(cli("stage", tmp_path / "absent", "--to", to), tmp_path / "absent")
    refused(cli("stage", tmp_path / "empty", "--to", to), tmp_path / "empty", "no files")
    refused(cli("stage", mine / "manifest.json", "--to", to), "no directory", mine, code=2)
    refused(cli("stage", mine, "--to", to, "--split", "test"), "test", "train", code=2)
    (mine / "manifest.json").write_text((mine / "manifest.json").read_text() + " ")
    refused(cli("stage", mine, "--to", to), mine)
    (mine / "manifest.json").unlink()
    (mine / ".dataprep").mkdir(exist_ok=True)
    refused(cli("stage", mine, "--to", to), mine, "unfinished", "dataprep status")
    assert not to.exists()


# --- the node's storage ---


def test_too_little_room_is_seen_before_the_first_byte(
    cli: Cli, source: Path, small_disk: Callable[[str], Path]
) -> None:
    to = small_disk("1m") / "to"
    error = refused(cli("stage", source, "--to", to), to, "free", "nothing was copied", code=4)
    assert "--split" in error
    assert arrived(to) == {}
    small_disk("8m")
    staged(cli, source, to)
    # What is there already needs no room.
    (to.parent / "filler").write_bytes(bytes(os.statvfs(to).f_bavail * 4096 - 65536))
    staged(cli, source, to)


def test_a_disk_that_fills_up_meanwhile_keeps_what_is_whole(
    cli: Cli, forks: Forks, source: Path, small_disk: Callable[[str], Path]
) -> None:
    to = small_disk("2m") / "to"
    filler = to.parent / "filler"
    filler.write_bytes(bytes(2 * 1024 * 1024 - 100_000))
    result = forks.run("stage", source, "--to", to, patch=ONE_STREAM + LYING)
    refused(result, to, "no space left", "run the same command again")
    assert not is_sealed(to)
    assert partials(to) == []
    kept = arrived(to)
    assert kept
    assert kept.items() < named(source).items()
    filler.unlink()
    assert "there already" in staged(cli, source, to).out


@pytest.mark.parametrize("instead", ["nothing", "a link"])
def test_a_target_that_is_renamed_while_it_is_filled_ends_the_call(
    forks: Forks, source: Path, tmp_path: Path, instead: str
) -> None:
    to = tmp_path / "to"
    call = midway(forks, source, to)
    to.rename(tmp_path / "away")
    if instead == "a link":
        (tmp_path / "other").mkdir()
        to.symlink_to("other")
    refused(call.go_on(), to, "removed or replaced", "run the same command again")
