"""Commands run where somebody has put modules beside the data: none of them may be imported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import BEAM, FORMATS, Cli, Made

MODULES = ("pickle", "numpy", "dataprep", "sitecustomize", "h5py", "lmdb", "resource", "json")
MARK = "import os, sys\nopen(os.path.join({place!r}, 'ran-' + __name__), 'w')\nsys.exit(66)\n"
SCRIPT = (Path(sys.executable).parent / "dataprep").as_posix()


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A working directory with such modules, which leave a file here when they run."""
    place = tmp_path / "data"
    place.mkdir()
    for name in MODULES:
        (place / f"{name}.py").write_text(MARK.format(place=os.fspath(tmp_path)))
    return place


def run(place: Path, *words: object) -> None:
    """A command as it is installed; it succeeds, and nothing of the directory ran."""
    done = subprocess.run(
        [SCRIPT, *map(str, words)], cwd=place, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert not list(place.parent.glob("ran-*"))


def test_a_set_that_brings_modules_is_read_without_them(
    cli: Cli, tiny: Made, hostile: Path
) -> None:
    words = ("convert", tiny.out, "--sink", "lmdb", "--to", hostile / "out")
    assert cli(*words).code == 0
    run(hostile, "inspect", "out/train_lmdb/data.mdb", "--records", 1)


@pytest.mark.thorough
def test_every_command_is_run_without_them(cli: Cli, tiny: Made, hostile: Path) -> None:
    run(hostile, *tiny.command(Path("made"), "--workers", 6, *BEAM))
    for sink in ("hdf5", "lmdb"):
        run(hostile, "convert", "made", *FORMATS[sink], "--to", sink)
        run(hostile, "verify", sink, "--level", "decode")
    run(hostile, "verify", "made", "--level", "records")
    run(hostile, "lint", "made")
    run(hostile, "report", "made")
    run(hostile, "status", "made")
    run(hostile, "diff", "made", "lmdb")
    run(hostile, "stage", "made", "--to", hostile / "node")
    run(hostile, "stage", "made", "--to", hostile / "node", "--clean")


def test_processes_that_help_are_started_without_them(hostile: Path) -> None:
    """What jobs of 50,000 images use, in the launcher and in a notebook's kernel."""
    script = hostile.parent / "script.py"
    script.write_text(
        "import os\n"
        "from dataprep_pipelines.worker import HelperProcesses\n"
        "if __name__ == '__main__':\n"
        "    with HelperProcesses(1) as pool:\n"
        "        assert pool.submit(os.getpid).result() != os.getpid()\n"
        "    assert 'PYTHONSAFEPATH' not in os.environ\n"
    )
    subprocess.run([sys.executable, script], cwd=hostile, check=True)
    assert not list(hostile.parent.glob("ran-*"))


def test_a_command_of_the_user_finds_its_neighbours(tiny: Made, tmp_path: Path) -> None:
    (tmp_path / "neighbour.py").write_text("print('found')")
    (tmp_path / "train.py").write_text("import neighbour")
    words = ("stage", tiny.out, "--to", tmp_path / "node", "--", sys.executable)
    for program in (["train.py"], ["-c", "import neighbour"]):
        done = subprocess.run(
            [SCRIPT, *map(str, words), *program],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert "found" in done.stdout, done.stderr
