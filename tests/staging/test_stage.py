"""``dataprep stage`` when all goes well: what arrives, what is used again, and how it is proven."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

import dataprep
from dataprep.sealed.set import SealedSet
from tests.conftest import Cli
from tests.staging.conftest import AsNode
from tests.staging.staged_sets import (
    PRIVATE,
    RECORDS,
    Sets,
    arrived,
    flip,
    is_sealed,
    named,
    records_of,
    shards,
    staged,
    times,
    write_plain,
)

pytestmark = pytest.mark.usefixtures("outside", "unflushed")


def verified(cli: Cli, to: Path) -> None:
    result = cli("verify", to, "--level", "records", "--workers", 1)
    assert result.code == 0, result


def keys(to: Path, split: str) -> list[str]:
    with dataprep.open(to, split) as records:
        return [example.key for example in records]


# --- the whole ---


def test_a_whole_copy_is_byte_identical_verified_and_private(
    cli: Cli, source: Path, tmp_path: Path
) -> None:
    to = tmp_path / "scratch" / "set"
    result = staged(cli, source, to)
    assert arrived(to) == named(source)
    assert not (to / "part.json").exists()
    verified(cli, to)
    assert keys(to, "train") == keys(source, "train")
    for directory in (to.parent, to, to / PRIVATE):
        assert directory.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in shards(to)} == {0o644}
    lines = result.out.splitlines()
    assert lines[0].startswith(f"{source}: {len(arrived(to))} files, ")
    assert f"to {to} (--to" in lines[0]
    assert f"in {len(arrived(to)) - 1} files copied " in lines[-1]
    assert lines[-1].endswith("/s")


@pytest.mark.parametrize(
    ("is_marked", "verify"), [(True, "copy"), (False, "copy"), (False, "none")]
)
def test_a_second_call_proves_what_is_there_and_reads_no_shard_of_the_source(
    cli: Cli, mine: Path, tmp_path: Path, *, is_marked: bool, verify: str
) -> None:
    """Also without its sentinel."""
    to = tmp_path / "to"
    staged(cli, mine, to)
    before = times(to)
    if not is_marked:
        (to / PRIVATE / "complete.json").unlink()
        del before["manifest.json"]  # which is written rather than copied
    for path in (*shards(mine), *shards(mine, "validation")):
        path.unlink()
    result = staged(cli, mine, to, "--verify", verify)
    assert result.out.splitlines()[-1].startswith("nothing to copy: ")
    assert "there already" in result.out
    assert before.items() <= times(to).items()


def test_a_split_comes_alone_and_another_one_does_not_take_its_place(
    cli: Cli, source: Path, tmp_path: Path
) -> None:
    to = tmp_path / "to"
    staged(cli, source, to, "--split", "validation")
    here = arrived(to)
    assert set(here) == {*named(source, "validation"), "part.json"}
    verified(cli, to)
    assert len(keys(to, "validation")) == RECORDS["validation"]
    for words in (("--split", "train"), ()):
        result = cli("stage", source, "--to", to, *words)
        assert result.code == 1
        assert "holds another part" in result.error
        assert "--split validation" in result.error
        assert arrived(to) == here
    both = ("--split", "train", "--split", "validation")
    assert cli("stage", "--clean", "--to", to).code == 0
    staged(cli, source, to, *both)
    assert arrived(to) == named(source)
    verified(cli, to)


def test_what_differs_of_a_source_made_anew_is_copied_and_nothing_else(
    cli: Cli, sets: Sets, tmp_path: Path
) -> None:
    source, to = tmp_path / "source", tmp_path / "to"
    shutil.copytree(sets.first.out, source)
    staged(cli, source, to)
    old, before = arrived(to), times(to)
    shutil.rmtree(source)
    shutil.copytree(sets.anew.out, source)
    result = staged(cli, source, to)
    assert arrived(to) == named(source)
    same = {name for name, digest in arrived(to).items() if old.get(name) == digest}
    assert same < old.keys()
    assert {name for name, moment in times(to).items() if before.get(name) == moment} == same
    # All but the manifest, which is written rather than copied.
    assert f"in {len(old) - len(same) - 1} files copied" in result.out
    verified(cli, to)


# --- parts ---


def parts(cli: Cli, as_node: AsNode, source: Path, place: Path, nodes: int) -> list[Path]:
    found = [place / str(node) for node in range(nodes)]
    for node, to in enumerate(found):
        as_node(node, nodes)
        staged(cli, source, to, "--share", "node", "--rendezvous", "none")
        verified(cli, to)
    return found


def test_the_parts_of_three_nodes_are_even_and_together_everything(
    cli: Cli, as_node: AsNode, source: Path, tmp_path: Path
) -> None:
    found = parts(cli, as_node, source, tmp_path, 3)
    for split, count in (("train", 4), ("validation", 3)):
        there = [path.name for to in found for path in shards(to, split)]
        assert sorted(there) == [path.name for path in shards(source, split)]
        held = [records_of(to, split) for to in found]
        assert max(held) - min(held) <= count
        assert [len(keys(to, split)) for to in found] == held
        union = {key for to in found for key in keys(to, split)}
        assert union == set(keys(source, split))
    for node, to in enumerate(found):
        assert (to / "manifest.json").read_bytes() == (source / "manifest.json").read_bytes()
        part = SealedSet.read(to).part
        assert part is not None
        assert (part.node, part.nodes) == (node, 3)


def test_a_node_that_becomes_another_one_gets_the_part_of_that_one(
    cli: Cli, as_node: AsNode, source: Path, tmp_path: Path
) -> None:
    to = tmp_path / "to"
    told = ("--share", "node", "--rendezvous", "none")
    as_node(0, 3)
    staged(cli, source, to, *told)
    first, written = set(arrived(to)), times(to)
    as_node(2, 3)
    staged(cli, source, to, *told)
    assert set(arrived(to)) & first == {"manifest.json", "part.json", "records.parquet"}
    assert times(to)["records.parquet"] == written["records.parquet"]  # both nodes have it
    verified(cli, to)
    as_node(0, 3)
    staged(cli, source, to, *told)
    assert set(arrived(to)) == first
    verified(cli, to)


# --- plain directories ---


@pytest.mark.parametrize("more", [(), ("--verify", "none"), ("--verify", "reread")])
def test_a_plain_directory_arrives_as_it_is(cli: Cli, tmp_path: Path, more: tuple[str]) -> None:
    files = write_plain(tmp_path / "plain")
    to = tmp_path / "to"
    staged(cli, tmp_path / "plain", to, *more)
    assert arrived(to) == files
    before = times(to)
    again = staged(cli, tmp_path / "plain", to, *more)
    assert "nothing to copy" in again.out
    assert times(to) == before


def test_odd_names_are_staged_as_they_are_and_such_as_are_no_text_refused(
    cli: Cli, tmp_path: Path
) -> None:
    plain, to = tmp_path / "pl\tin%41", tmp_path / "to%"
    for name in ("%41", "\u202e/100%", "ä\n"):
        path = plain / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    staged(cli, plain, to)
    assert arrived(to) == arrived(plain)
    assert "nothing to copy" in staged(cli, plain, to).out
    told = json.loads(cli("stage", plain, "--to", to, "--status", "--json").out)
    assert (told["is_whole"], told["source"], told["files"]) == (True, str(plain), 3)
    assert "removed 3 files" in cli("stage", plain, "--to", to, "--clean").out
    assert not to.exists()
    (plain / os.fsdecode(b"a\xff")).touch()
    refused = cli("stage", plain, "--to", to)
    assert (refused.code, r"the name a\udcff in " in refused.error) == (1, True), refused
    assert not to.exists()


def test_of_a_plain_directory_that_has_changed_everything_is_as_it_is_now(
    cli: Cli, tmp_path: Path
) -> None:
    plain, to = tmp_path / "plain", tmp_path / "to"
    write_plain(plain)
    staged(cli, plain, to)
    flip(plain / "data.mdb")
    (plain / "sub" / "a.bin").unlink()
    (plain / "new").write_text("new")
    staged(cli, plain, to)
    assert arrived(to) == arrived(plain)
    assert not (to / "sub" / "a.bin").exists()


# --- what has changed in the target ---


def test_a_shard_that_somebody_has_changed_since_is_mended(
    cli: Cli, source: Path, tmp_path: Path
) -> None:
    to = tmp_path / "to"
    staged(cli, source, to)
    damaged, truncated, removed, *_ = shards(to)
    flip(damaged)
    truncated.write_bytes(truncated.read_bytes()[:-1])
    removed.unlink()
    result = staged(cli, source, to)
    assert "in 3 files copied to 1 node" in result.out
    assert arrived(to) == named(source)


def test_reread_finds_a_flipped_bit_that_no_time_tells_of(
    cli: Cli, source: Path, tmp_path: Path
) -> None:
    to = tmp_path / "to"
    staged(cli, source, to)
    flip(shards(to)[2], keep_time=True)
    staged(cli, source, to)  # as documented: sizes and times are believed
    assert arrived(to) != named(source)
    result = staged(cli, source, to, "--verify", "reread")
    assert "in 1 file copied to 1 node" in result.out
    assert arrived(to) == named(source)


def test_verify_none_compares_sizes(cli: Cli, mine: Path, tmp_path: Path) -> None:
    to = tmp_path / "to"
    flip(shards(mine)[0])
    staged(cli, mine, to, "--verify", "none")
    assert arrived(to) == arrived(mine)
    # Nothing of this is believed by a call that looks closer.
    refused = cli("stage", mine, "--to", to)
    assert refused.code == 1, refused
    assert str(shards(mine)[0]) in refused.error
    assert not is_sealed(to)
