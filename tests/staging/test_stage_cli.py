"""The command line of ``dataprep stage``: what it prints and refuses, and what it does instead."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dataprep.staging.target.directory import StageDirectory
from dataprep.system.messages import sized
from tests.conftest import Cli, Shelf
from tests.staging.conftest import Forks
from tests.staging.staged_sets import PRIVATE, arrived, flip, named, shards, write_plain

pytestmark = pytest.mark.usefixtures("outside", "unflushed")


def test_print_dir_prints_the_path_and_nothing_else(cli: Cli, source: Path, tmp_path: Path) -> None:
    to = tmp_path / "to"
    for said in ("copied", "nothing to copy"):
        result = cli("stage", source, "--to", to, "--print-dir")
        assert result.code == 0, result
        assert result.out == f"{to}\n"
        assert said in result.err
    assert arrived(to) == named(source)


def test_print_dir_prints_no_path_if_there_is_no_copy(
    cli: Cli, source: Path, tmp_path: Path
) -> None:
    (tmp_path / "to").touch()
    result = cli("stage", source, "--to", tmp_path / "to" / "in", "--print_dir")
    assert (result.code, result.out) == (1, "")


def test_a_target_is_as_it_was_named_and_absolute(
    cli: Cli, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("link").symlink_to(source.parent)
    for to in ("to", "./to", "../" + tmp_path.name + "/to"):
        result = cli("stage", f"link/{source.name}", "--to", to, "--print_dir")
        assert result.code == 0, result
        assert Path(result.out.strip()).is_absolute()
        assert Path(result.out.strip()).resolve() == tmp_path / "to"
    assert f"copy of {tmp_path}/link/{source.name}" in cli("stage", "--to", "to", "--status").out


@pytest.mark.parametrize("name", ["tfrecord", "hdf5"])
def test_the_file_of_variables_can_be_sourced(
    cli: Cli, shelf: Shelf, tmp_path: Path, name: str
) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is missing")
    source, file = shelf(name).out, tmp_path / "stage.env"
    to = tmp_path / 'it\'s a $HOME of "data"'
    result = cli("stage", source, "--to", to, "--env_file", file)
    assert result.code == 0, result
    script = f"set -eu; . {shlex.quote(str(file))}; env -0"
    shown = subprocess.run([bash, "-c", script], capture_output=True, text=True, check=True)
    variables = dict(line.split("=", 1) for line in shown.stdout.split("\0") if line)
    assert variables["DATA_DIR"] == str(to)
    assert variables["DATAPREP_SOURCE"] == str(source)
    assert (variables.get("HDF5_USE_FILE_LOCKING") == "FALSE") == (name == "hdf5")


def test_advice_is_a_table_and_touches_nothing(cli: Cli, source: Path, tmp_path: Path) -> None:
    to = tmp_path / "to"
    result = cli("stage", source, "--to", to, "--advise", "--nodes", 64, "--speed", "pfs=100")
    assert result.code == 0, result
    for word in ("everything", "broadcast", "for 64 nodes", "best: "):
        assert word in result.out
    assert not to.exists()


def advised(cli: Cli, source: Path, *more: object) -> list[str]:
    result = cli("stage", source, "--advise", *more)
    assert result.code == 0, result
    return result.out.splitlines()


def test_advice_goes_by_what_a_node_would_get(cli: Cli, source: Path, tmp_path: Path) -> None:
    shared = tmp_path / "share"
    words = ("--share", "node", "--replicas", 2, "--whole", "validation")
    rank = ("--rank", 0, "--world_size", 3, "--rendezvous", "none")
    staged = cli("stage", source, "--to", shared, *words, *rank)
    assert staged.code == 0, staged
    there = sum((shared / name).stat().st_size for name in arrived(shared) if name != "part.json")
    table = advised(cli, source, *words, "--nodes", 3)
    assert table[3].split()[:3] == ["share", *sized(there).split()]
    # Every shard on every node is everything.
    everything = advised(cli, source, "--share", "node", "--replicas", 3, "--nodes", 3)
    assert everything[2].split()[1:3] == everything[3].split()[1:3]


def test_advice_says_that_a_share_is_refused_and_then_what_is_best(cli: Cli, source: Path) -> None:
    table = advised(cli, source, "--share", "node", "--nodes", 4)
    assert table[3].split()[:5] == ["share", "0", "bytes", "0", "bytes"]
    assert "impossible: validation has 3 shards, too few for 4 nodes" in table[3]
    assert table[-1] == "best: everything, read by every node"
    # The same command without --advise is refused for the same reason.
    words = ("--share", "node", "--rank", 0, "--world_size", 4, "--rendezvous", "none")
    assert "validation has 3 shards, too few for 4 nodes" in cli("stage", source, *words).error
    assert "impossible" not in advised(cli, source, "--split", "train", "--nodes", 4)[3]


def test_warming_reads_all_and_writes_nothing(cli: Cli, mine: Path, tmp_path: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    result = cli("stage", mine, "--warm")
    assert result.code == 0, result
    assert f"{len(named(mine))} files, " in result.out
    assert "in the page cache" in result.out
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
    shards(mine)[2].write_bytes(b"short")
    result = cli("stage", mine, "--warm")
    assert result.code == 1
    assert str(shards(mine)[2]) in result.error


def test_without_mpi_a_broadcast_reads_directly_and_says_so(
    cli: Cli, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dataprep.staging.stage.mpi.unavailable", lambda: "mpi4py is not installed")
    result = cli("stage", source, "--to", tmp_path / "to", "--broadcast", "mpi")
    assert result.code == 0, result
    assert result.out.startswith("no broadcast: mpi4py is not installed; every node reads ")
    assert arrived(tmp_path / "to") == named(source)


_MODES = ("--warm", "--advise", "--status", "--clean")

WRONG = {
    "no source": ((), "SRC is missing"),
    "to alone": (("--to", "/x"), "SRC is missing"),
    "warm without source": (("--warm",), "SRC is missing"),
    "status without place": (("--status",), "SRC is missing"),
    "empty source": (("",), "SRC is empty; is a variable not set?"),
    "empty target": (("SRC", "--to", ""), "--to is empty; is a variable not set?"),
    "empty target to clean": (("--clean", "--to", ""), "--to is empty; is a variable not set?"),
    "empty source to clean": (("", "--clean"), "SRC is empty; is a variable not set?"),
    "empty target to look at": (("--status", "--to="), "--to is empty; is a variable not set?"),
    "empty source to warm": (("", "--warm"), "SRC is empty; is a variable not set?"),
    "empty source to advise on": (("", "--advise"), "SRC is empty; is a variable not set?"),
    "empty file of variables": (("SRC", "--env_file", ""), "--env_file is empty"),
    "nodes without advise": (("SRC", "--nodes", 4), "--nodes belongs to --advise"),
    "speed without advise": (("SRC", "--speed", "pfs=1"), "--speed belongs to --advise"),
    "nothing and hashes": (("SRC", "--verify", "none", "--hash"), "--verify none compares sizes"),
    "nobody to meet": (
        ("SRC", "--rendezvous", "n0:5000"),
        "--rendezvous n0:5000: no scheduler or MPI tells of other nodes here",
    ),
    "advice on more replicas than nodes": (
        ("SRC", "--advise", "--share", "node", "--replicas", 3, "--nodes", 2),
        "--replicas 3: there are 2 nodes",
    ),
    "advice on no such split": (
        ("SRC", "--advise", "--share", "node", "--whole", "test", "--nodes", 2),
        "--whole test",
    ),
    "a forgotten unit": (("SRC", "--bandwidth", "500"), "'500': expected 100.0 KB or more"),
    "replicas without share": (("SRC", "--replicas", 2), "--replicas and --whole belong to"),
    "whole without share": (("SRC", "--whole", "train"), "--replicas and --whole belong to"),
    "no such split to be whole": (
        ("SRC", "--share", "node", "--whole", "test", "--rank", 0, "--world_size", 2),
        "--whole test",
    ),
    "no such split": (("SRC", "--split", "test"), "--split test"),
    "share and broadcast": (("SRC", "--share", "node", "--broadcast", "mpi"), "--share"),
    "rank alone": (("SRC", "--rank", 0), "--world_size"),
    "world size alone": (("SRC", "--world_size", 2), "--rank"),
    "rank too large": (("SRC", "--rank", 2, "--world_size", 2), "--rank 2"),
    "no port": (
        ("SRC", "--rank", 0, "--world_size", 2, "--rendezvous", "n0:"),
        "--rendezvous 'n0:'",
    ),
    "more nodes than shards": (
        ("SRC", "--share", "node", "--rank", 0, "--world_size", 4, "--rendezvous", "none"),
        "validation has 3 shards, too few for 4 nodes",
    ),
    "more replicas than nodes": (
        ("SRC", "--share", "node", "--replicas", 3, "--rank", 0, "--world_size", 2),
        "--replicas",
    ),
    "all jobs without clean": (("SRC", "--all_jobs"), "--all_jobs belongs to --clean"),
    "warm with a target": (("SRC", "--warm", "--to", "/x"), "--warm reads SRC where it is"),
    "no such unit": (("SRC", "--bandwidth", "fast"), "fast"),
    "no bandwidth": (("SRC", "--bandwidth", "0"), "--bandwidth"),
    "no streams": (("SRC", "--streams", 0), "--streams"),
    "no such mode": (("SRC", "--broadcast", "udp"), "--broadcast"),
    **{
        f"warm with {option[0]}": (("SRC", "--warm", *option), f"{option[0]} does not go with it")
        for option in (
            *(("--print_dir",), ("--env_file", "f"), ("--shared",), ("--hash",)),
            *(("--broadcast", "mpi"), ("--rendezvous", "n0:5000")),
        )
    },
    **{
        f"{mode} with {option[0]}": (("SRC", mode, *option), f"{option[0]} does not go with it")
        for mode in ("--advise", "--status", "--clean")
        for option in (("--print_dir",), ("--env_file", "f"))
    },
    **{
        f"{one} and {other}": (("SRC", one, other), "two different things")
        for at, one in enumerate(_MODES)
        for other in _MODES[:at]
    },
}


@pytest.mark.parametrize("case", list(WRONG))
def test_wrong_usage_is_one_line_and_makes_nothing(
    cli: Cli, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("DATAPREP_SCRATCH", str(scratch))
    words, said = WRONG[case]
    result = cli("stage", *(source if word == "SRC" else word for word in words))
    assert result.code == 2, result
    assert said in result.error
    assert "unexpected" not in result.error
    assert not list(scratch.rglob("manifest.json"))


def test_an_error_of_a_size_is_a_sentence(cli: Cli, source: Path) -> None:
    assert "or 42GB. See `dataprep stage --help`." in cli("stage", source, "--bandwidth", "x").error


def test_striping_nowhere_is_refused(cli: Cli) -> None:
    result = cli("stripe", "")
    assert result.code == 2
    assert "DIR is empty; is a variable not set?" in result.error


# --- what is there ---


def test_status_is_zero_only_for_a_whole_and_unchanged_copy(
    cli: Cli, source: Path, tmp_path: Path
) -> None:
    to = tmp_path / "to"

    def status() -> str:
        result = cli("stage", source, "--to", to, "--status")
        assert result.code == ("whole" not in result.out or "changed" in result.out)
        assert result.code == 0 or "is not a whole, unchanged copy" in result.error
        told = json.loads(cli("stage", source, "--to", to, "--status", "--json").out)
        assert (told["place"], told["is_whole"]) == (str(to), result.code == 0)
        assert bool(told["changed"]) == ("changed" in result.out)
        return result.out

    assert "nothing was staged here" in status()
    StageDirectory.make(to).close()
    assert "nothing was copied, and nobody is copying" in status()
    assert cli("stage", source, "--to", to).code == 0
    assert "whole copy of" in status()
    flip(shards(to)[0])
    assert "changed since: " in status()
    assert cli("stage", source, "--to", to).code == 0
    assert "changed since: " not in status()


@pytest.mark.parametrize("mode", ["--status", "--clean"])
def test_the_copy_of_a_namesake_is_not_taken_for_that_of_the_source(
    cli: Cli, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    (tmp_path / "scratch").mkdir()
    monkeypatch.setenv("DATAPREP_SCRATCH", str(tmp_path / "scratch"))
    namesake = tmp_path / source.name
    namesake.mkdir()
    (namesake / "file").write_text("other")
    assert cli("stage", namesake).code == 0
    refused = cli("stage", source, mode)
    assert refused.code == 1
    assert f"holds a copy of {namesake}, not of {source}" in refused.error
    assert cli("stage", namesake, "--status").code == 0
    # By whatever name; and even when it is gone.
    (tmp_path / "link").symlink_to(tmp_path)
    assert cli("stage", tmp_path / "link" / source.name, "--status").code == 0
    shutil.rmtree(namesake)
    assert "removed" in cli("stage", namesake, "--clean").out


def test_the_same_data_set_in_another_place_is_the_same_source(
    cli: Cli, source: Path, mine: Path, tmp_path: Path
) -> None:
    to = tmp_path / "to"
    assert cli("stage", source, "--to", to).code == 0
    assert cli("stage", mine, "--to", to, "--status").code == 0
    assert "removed" in cli("stage", mine, "--to", to, "--clean").out


def test_dots_behind_a_link_lead_to_the_same_place_in_every_mode(
    cli: Cli, source: Path, tmp_path: Path
) -> None:
    (tmp_path / "far" / "away").mkdir(parents=True)
    (tmp_path / "far").chmod(0o700)
    (tmp_path / "link").symlink_to(tmp_path / "far" / "away")
    to = tmp_path / "link" / ".." / "to"
    assert cli("stage", source, "--to", to).code == 0
    assert (tmp_path / "far" / "to" / "manifest.json").exists()
    assert cli("stage", "--to", to, "--status").code == 0
    cleaned = cli("stage", "--to", to, "--clean")
    assert "removed" in cleaned.out, cleaned
    assert not (tmp_path / "far" / "to").exists()


@pytest.mark.parametrize("command", ["verify", "inspect", "status"])
def test_half_a_copy_is_not_taken_for_something_else(
    cli: Cli, source: Path, tmp_path: Path, command: str
) -> None:
    to = tmp_path / "a copy"
    StageDirectory.make(to).close()
    result = cli(command, to)
    assert result.code == 1
    assert f"{to}: a copy that is not whole; `dataprep stage --status --to '{to}'`" in result.error
    # A whole copy of something else than a data set is none of a data set.
    assert write_plain(tmp_path / "plain")
    assert cli("stage", tmp_path / "plain", "--to", tmp_path / "to").code == 0
    plain = cli(command, tmp_path / "to")
    assert plain.code == 1
    assert "not whole" not in plain.error


def test_paths_with_odd_characters_stay_one_line(cli: Cli, source: Path, tmp_path: Path) -> None:
    odd = tmp_path / "a\nb\x1b[2J"
    (tmp_path / "plain").touch()
    for words in (
        ("stage", odd, "--to", tmp_path / "to"),
        ("stage", source, "--to", tmp_path / "plain" / odd.name),
        ("stage", "--status", "--to", odd),
        ("stage", "--clean", "--to", odd),
    ):
        result = cli(*words)
        assert "\x1b" not in result.out + result.err, words
        assert len(result.err.splitlines()) <= 1, result
        assert len(result.out.splitlines()) <= 1, result
    staged = cli("stage", source, "--to", odd)
    assert staged.code == 0, staged
    assert "\x1b" not in staged.out + staged.err
    assert len(staged.out.splitlines()) == 2
    for more in (("--split", "train", "--status"), ("--clean",)):
        result = cli("stage", source, "--to", odd, *more)
        assert "\x1b" not in result.out + result.err, more
        assert len(result.out.splitlines()) == 1, result


def test_staging_loads_neither_beam_nor_numpy_nor_tensorflow(
    forks: Forks, source: Path, tmp_path: Path
) -> None:
    said = (
        "import atexit, sys; import os; end = os._exit; os._exit = lambda code: ("
        "print([name for name in ('apache_beam', 'numpy', 'tensorflow', 'mpi4py')"
        " if name in sys.modules], flush=True), end(code))"
    )
    result = forks.run("stage", source, "--to", tmp_path / "to", patch=said)
    assert result.code == 0, result
    assert result.out.splitlines()[-1] == "[]"


def test_it_runs_as_a_program_and_flushes_to_the_disk(source: Path, tmp_path: Path) -> None:
    to = tmp_path / "to"
    command = [sys.executable, "-m", "dataprep", "stage", str(source), "--to", str(to)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert f" in {len(named(source)) - 1} files copied " in done.stdout.splitlines()[-1]
    assert (to / PRIVATE / "complete.json").exists()
