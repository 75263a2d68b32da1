"""What is released: the same bytes whoever builds it, and it works where nothing else is."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import dataprep
from tests.conftest import hashes
from tests.docs.pages import DOCS, ROOT, said

pytestmark = pytest.mark.thorough
KINDS = (".whl", ".tar.gz")


def run(words: Sequence[object], **more: object) -> str:
    """What a program prints; that it succeeds is expected, whatever this environment has."""
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [*map(str, words)],
        **{"env": bare, "capture_output": True, "text": True, **more},  # type: ignore[call-overload]
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return str(done.stdout)


def build(clone: Path, umask: int) -> Path:
    """Sdist and wheel, as ``make dist`` makes them."""
    if not (ROOT / ".git").exists():
        pytest.skip("this is no checkout of git")
    run(["git", "clone", "--quiet", ROOT, clone], umask=umask)
    time = run(["git", "log", "-1", "--format=%ct"], cwd=clone).strip()
    words = [sys.executable, "-m", "hatchling", "build", "-d", clone / "dist"]
    run(words, cwd=clone, umask=umask, env={**os.environ, "SOURCE_DATE_EPOCH": time})
    return clone / "dist"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("built") / "clone", 0o022)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> None:
    words = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "click"]
    place = tmp_path_factory.mktemp("index")
    if subprocess.run(words, cwd=place, capture_output=True, check=False).returncode:
        pytest.skip("no package index can be reached")


def test_two_builds_are_the_same_bytes(built: Path, tmp_path: Path) -> None:
    # Later, elsewhere, by somebody who gives fewer permissions.
    again = build(tmp_path / "another" / "place", 0o077)
    assert len(hashes(built)) == len(KINDS)
    assert hashes(again) == hashes(built)


@pytest.mark.usefixtures("index")
def test_the_index_would_show_the_description(built: Path, tmp_path: Path) -> None:
    run([sys.executable, "-m", "pip", "install", "--quiet", "--target", tmp_path, "twine"])
    words = [sys.executable, "-m", "twine", "check", "--strict", *built.iterdir()]
    assert run(words, env={**os.environ, "PYTHONPATH": tmp_path}).count("PASSED") == len(KINDS)


@pytest.fixture(scope="module")
def wheel_installed(index: None, built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment that was bare, by the commands for sites without a network."""
    place = tmp_path_factory.mktemp("bare")
    run([sys.executable, "-m", "venv", place])
    ((_, page),) = said(
        r"```sh\n(pip download .*)\n(pip install --no-index .*)\n", DOCS / "installing.md"
    )
    (wheel,) = built.glob("*.whl")
    for line, ours in ((page[1], str(wheel)), (page[2], "dataprep-shards")):
        _, *words, package = shlex.split(line)
        assert package.startswith("dataprep-shards[")  # extras would be gigabytes here
        run([place / "bin" / "pip", *words, "--quiet", ours], cwd=place)
    return place / "bin"


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_built_works_in_a_bare_environment(
    wheel_installed: Path, built: Path, tmp_path: Path, kind: str
) -> None:
    (made,) = (path for path in built.iterdir() if path.name.endswith(kind))
    pip, program = wheel_installed / "pip", wheel_installed / "dataprep"
    run([pip, "install", "--quiet", "--force-reinstall", "--no-deps", made])
    assert run([pip, "check"])
    said = run([program, "--version"], cwd=tmp_path)
    assert said.split()[-1] == dataprep.__version__
    run([program, "synthesize", "imagenet", "raw", "--images_per_class", "3"], cwd=tmp_path)
    job = ["imagenet", "--raw_data_dir", "raw", "--local_scratch_dir", "out"]
    assert "sealed out/manifest.json" in run([program, *job], cwd=tmp_path)
    run([program, "verify", "out", "--level", "decode"], cwd=tmp_path)
