"""Hostile inputs, and that those who look for trouble find it where there is some."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.past import PAST
from tests.fuzz.targets import CORPUS, TARGETS

_ROOT = Path(__file__).parents[2]
_FILES = [path for path in CORPUS.rglob("*") if path.is_file()]
_TOGETHER = 5  # targets in one process

# Each takes a bound or an answer away, or brings a crash; the target of that name must tell.
_PLANTED = {
    "tar": ("import tarfile, dataprep.archives.tar as it; it._DAMAGE = ()", "Error"),
    "boxes": (  # the bound is less, since it is waited for four times
        "import tests.fuzz.runner; tests.fuzz.runner.SECONDS = 1.0\n"
        "import tests.fuzz.raw_readers as it; old = it.read_bounding_boxes\n"
        "it.read_bounding_boxes = lambda path: path.stat().st_size > 200 and "
        "next(filter(None, iter(int, 1))) or old(path)",
        "over 1 s",
    ),
    "png": (
        "import dataprep.images.pixels as it; it.require_size = lambda *_: None",
        "memory: ",
    ),
    "documents": (
        "import dataprep.system.state_files as it; it._refused = lambda *_: KeyError('format')",
        "KeyError",
    ),
    "classes": (
        "import os, tests.fuzz.raw_readers as it; old = it.load_class_list; it.load_class_list = "
        "lambda path: os.abort() if path.stat().st_size > 200 else old(path)",
        "Fatal Python error: Aborted",
    ),
}


def fuzz(*words: str, plant: str = "", place: Path = _ROOT) -> subprocess.CompletedProcess[str]:
    """Run it in a process that has no threads yet."""
    program = f"{plant}\nimport sys\nfrom tests.fuzz.__main__ import main\nsys.exit(main())"
    command = [sys.executable, "-c", program, *words]
    path = {"PYTHONPATH": ":".join([str(_ROOT), *filter(None, sys.path)])}
    return subprocess.run(command, env=path, cwd=place, capture_output=True, text=True, check=False)


def test_what_was_found_before(tmp_path: Path) -> None:
    done = fuzz("--corpus", place=tmp_path)
    assert (done.returncode, done.stderr) == (0, ""), done
    assert done.stdout.count(" 0 findings") == len({*PAST, *(it.parent.name for it in _FILES)})


def test_the_corpus_is_of_targets_and_small() -> None:
    assert {path.parent.name for path in _FILES} <= {name.replace(" ", "-") for name in TARGETS}
    assert sum(path.stat().st_size for path in _FILES) < 300_000


# A process takes longer to begin than most of them.
@pytest.mark.thorough
@pytest.mark.parametrize("first", range(0, len(TARGETS), _TOGETHER))
def test_a_minute_of_hostile_inputs(first: int, tmp_path: Path) -> None:
    targets = [*TARGETS][first : first + _TOGETHER]
    done = fuzz(*targets, "--seed", "1", place=tmp_path)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    for target, line in zip(targets, done.stdout.splitlines(), strict=True):
        assert line.startswith(f"{target}: {TARGETS[target].count} inputs, 0 findings")


@pytest.mark.thorough
@pytest.mark.parametrize("target", _PLANTED)
def test_what_is_planted_is_found(target: str, tmp_path: Path) -> None:
    plant, what = _PLANTED[target]
    done = fuzz(target, "--seed", "1", plant=plant, place=tmp_path)
    assert done.returncode == 1, done
    assert what in done.stdout
    kept = next((tmp_path / "fuzz-findings").iterdir())
    assert fuzz(target, "--file", str(kept), plant=plant, place=tmp_path).returncode == 1
    assert fuzz(target, "--file", str(kept), place=tmp_path).returncode == 0
