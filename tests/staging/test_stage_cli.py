"""The command line of ``dataprep stage``: what it prints and refuses, and what it does instead."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Cli, Shelf
from tests.staging.conftest import Forks
from tests.staging.staged_sets import PRIVATE, arrived, named, shards

pytestmark = pytest.mark.usefixtures("outside", "unflushed")


def test_print_dir_prints_the_path_and_nothing_else(cli: Cli, source: Path, tmp_path: Path) -> None:
    to = tmp_path / "to"
    for _ in range(2):
        result = cli("stage", source, "--to", to, "--print-dir")
        assert result.code == 0, result
        assert result.out == f"{to}\n"
        assert "1 node" in result.err
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


def test_a_file_of_variables_that_cannot_be_written_is_named(
    cli: Cli, source: Path, tmp_path: Path
) -> None:
    file = tmp_path / "absent" / "stage.env"
    result = cli("stage", source, "--to", tmp_path / "to", "--env_file", file)
    assert result.code == 1
    assert str(file) in result.error
    assert "the copy itself is whole" in result.error


def test_advice_is_a_table_and_touches_nothing(cli: Cli, source: Path, tmp_path: Path) -> None:
    to = tmp_path / "to"
    result = cli("stage", source, "--to", to, "--advise", "--nodes", 64, "--speed", "pfs=100")
    assert result.code == 0, result
    for word in ("everything", "broadcast", "for 64 nodes", "best: "):
        assert word in result.out
    assert not to.exists()
    unknown = cli("stage", source, "--advise", "--speed", "light=300000")
    assert unknown.code == 2
    assert "light" in unknown.error
    wrong = cli("stage", source, "--advise", "--speed", "pfs=much")
    assert wrong.code == 2
    assert "much" in wrong.error


def test_warming_reads_all_and_writes_nothing(cli: Cli, mine: Path, tmp_path: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    result = cli("stage", mine, "--warm")
    assert result.code == 0, result
    assert "21 files, " in result.out
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
    "warm without source": (("--to", "/x", "--warm"), "SRC is missing"),
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


def test_an_unknown_split_with_odd_characters_stays_one_line(cli: Cli, source: Path) -> None:
    result = cli("stage", source, "--split", "a\nb\x1b[2J")
    assert result.code == 2
    assert "\x1b" not in result.error
    assert len(result.err.splitlines()) == 1


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
        assert len((result.out + result.err).splitlines()) == 1, result
    staged = cli("stage", source, "--to", odd)
    assert staged.code == 0, staged
    assert "\x1b" not in staged.out + staged.err
    assert len(staged.out.splitlines()) == 2
    for words in (("--split", "train", "--status"), ("--clean",)):
        result = cli("stage", source, "--to", odd, *words)
        assert "\x1b" not in result.out + result.err, words
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
    assert done.stdout.splitlines()[-1].startswith("89.")
    assert (to / PRIVATE / "complete.json").exists()
