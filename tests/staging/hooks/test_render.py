"""What is printed: word for word, and that shells read it as it is meant."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep.errors import UsageError
from dataprep.staging.hooks import for_the_job, render
from dataprep.staging.request import StageRequest
from tests.conftest import Cli
from tests.staging.hooks.goldens import DIRECTORY, goldens

GOLDENS = goldens()

# What shells have a use for, and a path may have all the same.
AWKWARD = '/data/it\'s "50%" of `all` & $(more); * \\ #1 é@@{x} @@nodes'


def test_the_scripts_are_those_that_were_read_by_people() -> None:
    kept = {path.name: path.read_text(encoding="utf-8") for path in DIRECTORY.iterdir()}
    assert kept == GOLDENS


@pytest.mark.parametrize("name", GOLDENS)
def test_bash_can_read_it(name: str) -> None:
    subprocess.run(["bash", "-n"], input=GOLDENS[name], text=True, check=True)


@pytest.mark.parametrize("name", GOLDENS)
def test_shellcheck_finds_nothing(name: str) -> None:
    if shutil.which("shellcheck") is None:
        pytest.skip("shellcheck is not installed")
    words = ["shellcheck", "--norc", "-"]
    done = subprocess.run(words, input=GOLDENS[name], text=True, stdout=subprocess.PIPE)
    assert done.stdout == ""


@pytest.mark.parametrize("name", GOLDENS)
def test_lines_fit_a_terminal(name: str) -> None:
    assert max(map(len, GOLDENS[name].splitlines())) <= 100


@pytest.mark.parametrize("scheduler", ["slurm", "pbs"])
def test_an_awkward_path_reaches_the_program_as_it_is(tmp_path: Path, scheduler: str) -> None:
    text = render(scheduler, StageRequest(Path(AWKWARD)), to=AWKWARD)
    program = tmp_path / "dataprep"
    program.write_text("#!/bin/bash\nprintf '%s\\0' \"$@\"\n")
    program.chmod(0o755)
    done = subprocess.run(
        ["bash", "-uc", text, "bash", "1", "me"],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "PBS_O_WORKDIR": "/"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert done.stdout.split("\0")[:4] == ["stage", AWKWARD, "--to", AWKWARD]


@given(st.text(st.characters(exclude_characters="$\0", exclude_categories=["Cs"]), min_size=1))
def test_a_path_without_variables_is_one_word(path: str) -> None:
    assert shlex.split(for_the_job(path)) == [path]


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("$A/data", "a  b/data"),
        ("${A}data", "a  bdata"),
        ("$A$B", "a  b*"),
        ("/x y/$B/z'", "/x y/*/z'"),
        ("$1/${A:-x}/$(A)/$", "$1/${A:-x}/$(A)/$"),  # no names: taken as they are
    ],
)
def test_variables_are_left_for_the_job(path: str, found: str) -> None:
    done = subprocess.run(
        ["bash", "-uc", f"printf %s {for_the_job(path)}"],
        env={"A": "a  b", "B": "*"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert done.stdout == found


def test_a_relative_place_is_refused() -> None:
    with pytest.raises(UsageError, match="relative"):
        render("slurm", StageRequest(Path("/a")), to="scratch/b")


def test_the_command_prints_nothing_but_the_script(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    result = cli("hook", "lsf", "Größe", "--to", "$TMPDIR/x", "--share", "node", "--nodes", 7)
    request = StageRequest(tmp_path / "Größe", share="node")
    expected = render("lsf", request, to="$TMPDIR/x", nodes=7)
    assert (result.code, result.out, result.err) == (0, expected, "")


def test_an_epilog_is_of_no_source_and_a_script_of_one(cli: Cli) -> None:
    result = cli("hook", "pbs", "--epilog")
    assert (result.code, result.out, result.err) == (0, render("pbs", None), "")
    for words in ((), ("/data", "--epilog"), ("--epilog", "--to", "/x")):
        result = cli("hook", "slurm", *words)
        assert (result.code, result.out, "give SRC" in result.error) == (2, "", True)
