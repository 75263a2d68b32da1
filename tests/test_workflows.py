"""What CI and a release run is there: targets of make, programs, the Pythons that are promised."""

from __future__ import annotations

import itertools
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import dataprep
from tests.docs.pages import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGETS = re.findall(
    r"[\w-]+", re.findall(r"^\.PHONY: (.*)", (ROOT / "Makefile").read_text(), re.M)[0]
)
pytestmark = pytest.mark.skipif(not WORKFLOWS, reason="this is no checkout: the sdist has none")


def jobs(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]
    return found


def commands(job: dict[str, Any]) -> Iterator[str]:
    """Every ``run``, once for each combination of the matrix."""
    matrix = job.get("strategy", {}).get("matrix", {})
    for values in itertools.product(*matrix.values()):
        chosen = dict(zip(matrix, values, strict=True))
        for step in job["steps"]:
            command = step.get("run", "")
            for name, value in chosen.items():
                command = command.replace(f"${{{{ matrix.{name} }}}}", value)
            yield command


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_runs_what_is_there(path: Path) -> None:
    ran = [line for job in jobs(path).values() for line in commands(job) if line]
    assert ran
    for line in ran:
        program, *words = line.split()
        assert "${{" not in line, line
        if program == "make":
            targets = [word for word in words if "=" not in word]
            assert {*targets} <= {*TARGETS}, line
            assert targets, line
        for name in re.findall(r"(?<!\S)(?:\.ci|tests)/\S+", line):
            assert (ROOT / name).is_file(), line


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_may_do_only_what_it_says(path: Path) -> None:
    whole = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert whole["permissions"] == {"contents": "read"}
    for name, job in jobs(path).items():
        assert job["timeout-minutes" if "needs" not in job else "permissions"], name
        assert {*map(str, job.get("needs", "").split())} <= {*jobs(path)}, name
        assert ("id-token" in job.get("permissions", {})) == (name == "publish"), name
        for step in job["steps"]:
            assert re.fullmatch(r"[\w-]+/[\w-]+@[\w./]+", step.get("uses", "a/b@c")), step


def test_every_python_that_is_promised_is_tried() -> None:
    promised = re.findall(
        r'"Programming Language :: Python :: (3\.\d+)"', (ROOT / "pyproject.toml").read_text()
    )
    matrix = jobs(ROOT / ".github/workflows/test.yml")["everyday"]["strategy"]["matrix"]
    assert matrix["python"] == promised
    nightly = jobs(ROOT / ".github/workflows/nightly.yml")
    assert nightly["pre"]["strategy"]["matrix"]["python"] == [promised[0], promised[-1]]


def test_what_ci_leaves_out_is_tried_each_night() -> None:
    nightly = jobs(ROOT / ".github/workflows/nightly.yml")
    assert {*nightly} == {"crash", "pre", "sweeps"}
    assert "make crash PYTHON=python3" in commands(nightly["crash"])
    assert "make test-example test-nightly PYTHON=python3" in commands(nightly["sweeps"])


def notes(tmp_path: Path, version: str, changelog: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / ".ci").mkdir()
    (tmp_path / "dataprep").mkdir()
    script = tmp_path / ".ci" / "release_notes"
    script.write_bytes((ROOT / ".ci" / "release_notes").read_bytes())
    (tmp_path / "dataprep" / "version.py").write_text(
        (ROOT / "dataprep" / "version.py").read_text().replace(dataprep.__version__, "1.2.0")
    )
    (tmp_path / "CHANGELOG.md").write_text(changelog)
    return subprocess.run(["sh", str(script), version], capture_output=True, text=True, check=False)


CHANGELOG = """# Changelog

## Unreleased

- later

## 1.2.0 - 2031-01-02

### Added

- this

## 1.2.0rc1

- old
"""


def test_the_notes_of_a_release_are_its_part_of_the_changelog(tmp_path: Path) -> None:
    done = notes(tmp_path, "1.2.0", CHANGELOG)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip() == "### Added\n\n- this"


@pytest.mark.parametrize(
    ("version", "changelog", "said"),
    [
        ("1.3.0", CHANGELOG, "dataprep/version.py has another version than 1.3.0"),
        ("1.2.0", CHANGELOG.replace("## 1.2.0 ", "## 1.1.0 "), 'says nothing below "## 1.2.0"'),
        ("1.2.0", "# Changelog\n\n## 1.2.0\n\n## 1.1.0\n\n- old\n", 'nothing below "## 1.2.0"'),
    ],
)
def test_a_release_without_notes_or_of_another_version_is_refused(
    tmp_path: Path, version: str, changelog: str, said: str
) -> None:
    done = notes(tmp_path, version, changelog)
    assert done.returncode == 1
    assert said in done.stderr
