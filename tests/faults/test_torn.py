"""Files that a power cut or a stranger damaged: found or healed, and never wrong output."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import Cli, Made, hashes, leftovers, write_tiny_raw
from tests.faults.conftest import commits
from tests.finished_sets import flip

SETTINGS = settings(max_examples=3, derandomize=True)


def half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def nothing(path: Path) -> None:
    os.truncate(path, 0)


def test_a_shard_that_was_damaged_before_the_seal_is_found_if_asked_for(
    cli: Cli, tiny: Made, tmp_path: Path
) -> None:
    """Otherwise `dataprep verify` finds it."""
    out = tiny.copy(tmp_path / "out")
    (out / "manifest.json").unlink()  # as before the seal
    shard = min((out / "train").iterdir())
    flip(shard)
    assert cli(*tiny.command(out)).code == 0
    assert f"bad: train/{shard.name}" in cli("verify", out).out
    (out / "manifest.json").unlink()
    asked = tiny.command(out, "--verify_before_seal")
    result = cli(*asked)
    assert result.code == 1
    assert f"{shard.name}: not what was written there, so nothing is sealed" in result.error
    assert not (out / "manifest.json").exists()
    again = cli(*asked)
    assert again.code == 0, again
    assert "7 shards already there, 1 to make" in again.out
    assert "reading 8 shards again" in again.out
    assert hashes(out) == tiny.files


def test_a_sealed_set_whose_shard_is_found_damaged_is_sealed_no_more(
    cli: Cli, tiny: Made, tmp_path: Path
) -> None:
    """Or others would stage what is known to be damaged."""
    out = tiny.copy(tmp_path / "out")
    shard = out / "train" / "train-00002-of-00006"
    shard.write_bytes(shard.read_bytes()[::-1])
    error = cli(*tiny.command(out, "--verify_before_seal")).error
    assert "train-00002-of-00006: not what was written there, so nothing is sealed" in error
    assert not (out / "manifest.json").exists()
    assert "unfinished" in cli("stage", out, "--to", tmp_path / "to").error
    assert cli(*tiny.command(out, "--verify_before_seal")).code == 0
    assert hashes(out) == tiny.files


def zeros(path: Path) -> None:
    """What some file systems show after a power cut: the size is right, the content is not."""
    path.write_bytes(bytes(path.stat().st_size))


@SETTINGS
@given(data=st.data())
def test_a_bit_of_every_state_file_changes_nothing(
    cli: Cli, tiny: Made, data: st.DataObject
) -> None:
    """In every kind of bytes that they have: names, numbers, hashes, pages, footers."""
    with TemporaryDirectory() as name:
        out = tiny.copy(Path(name) / "out")
        for path in (out / ".dataprep").glob("*/*"):
            content = bytearray(path.read_bytes())
            at = data.draw(st.integers(0, len(content) - 1))
            content[at] ^= 1 << data.draw(st.integers(0, 7))
            path.write_bytes(content)
        if data.draw(st.booleans()):
            (out / "manifest.json").unlink()
        status = cli("status", out)
        assert status.code == 0, status
        assert "train: 0 of 6 shards" in status.out
        result = cli(*tiny.command(out))
        assert result.code == 0, result
        assert hashes(out) == tiny.files
        assert leftovers(out) == []


@pytest.mark.parametrize("tear", [half, nothing])
def test_a_torn_manifest_is_refused_by_verify_and_sealed_anew(
    cli: Cli, tiny: Made, tmp_path: Path, tear: Callable[[Path], None]
) -> None:
    out = tiny.copy(tmp_path / "out")
    tear(out / "manifest.json")
    for command in ("verify", "inspect"):
        result = cli(command, out)
        assert result.code == 1
        assert "manifest.json" in result.error
        assert len(result.error) < 500
    assert cli(*tiny.command(out)).code == 0
    assert hashes(out) == tiny.files


# --- every state a shard can be in ---

Change = Callable[[Path], object]
FILE_STATES: dict[str, Change] = {
    "right": lambda path: None,
    "missing": Path.unlink,
    "short": half,
    "empty": nothing,
    "long": lambda path: path.write_bytes(path.read_bytes() + b"x"),
}
RECORD_STATES: dict[str, Change] = {"there": lambda path: None, "missing": Path.unlink}
STATES = list(product(FILE_STATES, FILE_STATES, RECORD_STATES))


def test_a_shard_in_any_state_is_made_right_by_the_same_command(cli: Cli, tmp_path: Path) -> None:
    """One shard in each of the 50 states, all at once."""
    raw, out = tmp_path / "raw", tmp_path / "out"
    write_tiny_raw(raw, classes=1, images=2 * len(STATES), validation=1)
    places = ("--raw_data_dir", raw, "--local_scratch_dir", out, "--splits", "train")
    command = ("imagenet", *places, "--num_shards", f"train={len(STATES)}", "--workers", 1)
    assert cli(*command).code == 0
    right, records = hashes(out), commits(out)
    untouched: dict[Path, int] = {}
    for record, (data_state, index_state, record_state) in zip(records, STATES, strict=True):
        data, index = out / "train" / record.stem, out / "index" / "train" / record.stem
        if (data_state, index_state, record_state) == ("right", "right", "there"):
            untouched = {path: path.stat().st_mtime_ns for path in (data, index, record)}
        FILE_STATES[data_state](data)
        FILE_STATES[index_state](index)
        RECORD_STATES[record_state](record)
    result = cli(*command)
    assert result.code == 0, result
    assert hashes(out) == right
    assert commits(out) == records
    assert {path: path.stat().st_mtime_ns for path in untouched} == untouched
    assert leftovers(out) == []
