"""The command line of ``dataprep stage``: what it prints and refuses, and what it does instead."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dataprep.staging.directory import StageDirectory
from tests.conftest import Cli
from tests.staging.conftest import Forks
from tests.staging.staged_sets import PRIVATE, arrived, named

pytestmark = pytest.mark.usefixtures("outside", "unflushed")


def test_print_dir_prints_the_path_and_nothing_else(cli: Cli, source: Path, tmp_path: Path) -> None:
    to = tmp_path / "to"
    for said in ("copied", "nothing to copy"):
        result = cli("stage", source, "--to", to, "--print-dir")
        assert result.code == 0, result
        assert result.out == f"{to}\n"
        assert said in result.err
    assert arrived(to) == named(source)


def test_without_mpi_a_broadcast_reads_directly_and_says_so(
    cli: Cli, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dataprep.staging.stage.mpi.unavailable", lambda: "mpi4py is not installed")
    result = cli("stage", source, "--to", tmp_path / "to", "--broadcast", "mpi")
    assert result.code == 0, result
    assert result.out.startswith("no broadcast: mpi4py is not installed; every node reads ")
    assert arrived(tmp_path / "to") == named(source)


WRONG = {
    "no source": ((), "SRC is missing"),
    "to alone": (("--to", "/x"), "SRC is missing"),
    "status without place": (("--status",), "SRC is missing"),
    "empty source": (("",), "an argument is empty; is a variable not set?"),
    "empty target": (("SRC", "--to", ""), "an argument is empty; is a variable not set?"),
    "nobody to meet": (
        ("SRC", "--rendezvous", "n0:5000"),
        "--rendezvous n0:5000: no scheduler or MPI tells of other nodes here",
    ),
    "a forgotten unit": (("SRC", "--bandwidth", "500"), "'500': expected 100.0 KB or more"),
    "no such unit": (("SRC", "--bandwidth", "x"), "or 42GB. See `dataprep stage --help`."),
    "no such split": (("SRC", "--split", "test"), "has no split test"),
    "share and broadcast": (("SRC", "--share", "node", "--broadcast", "mpi"), "--share"),
    "rank": (("SRC", "--rank", 0), "No such option"),
    "no command": (("SRC", "--"), "COMMAND behind -- is run on a copy"),
    "status and a command": (("SRC", "--status", "--", "ls"), "COMMAND behind -- is run on a copy"),
    "clean outside of any job": (("--clean",), "SRC is missing: outside of any job"),
    "status and a path": (("SRC", "--status", "--print_dir"), "are different things"),
    "status that reads": (("SRC", "--status", "--verify", "reread"), "goes by sizes and times"),
    "status and clean": (("SRC", "--status", "--clean"), "are different things"),
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


# --- what is there ---


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
    assert "`dataprep stage --status`" in result.error


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
    assert done.stderr.startswith("stage: 100%")
    assert f" in {len(named(source)) - 1} files copied " in done.stdout.splitlines()[-1]
    assert (to / PRIVATE / "complete.json").exists()
