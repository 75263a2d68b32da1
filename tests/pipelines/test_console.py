"""Whoever has both distributions with a package `dataprep` is told which to remove, and how."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import dataprep
from tests.docs.pages import ROOT

# Theirs has modules of its own, and some that are called like ours.
THEIRS = ("__init__.py", "errors.py", "datasets/__init__.py", "eda/__init__.py")
NAME = "dataprep-0.4.5"


def made_wheel(directory: Path) -> Path:
    """Another distribution called `dataprep`, as small as pip takes it."""
    info = f"{NAME}.dist-info"
    files = {f"dataprep/{name}": f"# theirs: {name}\n" for name in THEIRS}
    files[f"{info}/METADATA"] = "Metadata-Version: 2.1\nName: dataprep\nVersion: 0.4.5\n"
    files[f"{info}/WHEEL"] = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = "".join(f"{name},,\n" for name in (*files, f"{info}/RECORD"))
    wheel = directory / f"{NAME}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(name, text)
    return wheel


class Environment:
    """A bare one, in which only pip has put files; dependencies are those of this one."""

    def __init__(self, place: Path) -> None:
        self.place = place
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
        (self.site,) = place.glob("lib/python*/site-packages")
        # Behind its own: the distributions of this environment, but not this checkout.
        others = [path for path in sys.path if path.endswith("site-packages")]
        (self.site / "others.pth").write_text("\n".join(others))

    def pip(self, *words: object) -> None:
        pip = [sys.executable, "-m", "pip", f"--python={self.place / 'bin' / 'python'}", "--quiet"]
        subprocess.run([*pip, *map(str, words)], check=True, capture_output=True)

    def install(self, *words: object) -> None:
        self.pip("install", "--no-index", "--no-deps", "--force-reinstall", *words)

    def dataprep(self, *words: str) -> subprocess.CompletedProcess[str]:
        program: list[str | Path] = [self.place / "bin" / "dataprep", *words]
        return subprocess.run(program, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    place = tmp_path_factory.mktemp("wheels")
    words = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "-d", str(place)]
    subprocess.run(words, cwd=ROOT, check=True, capture_output=True)
    return [*place.iterdir(), made_wheel(place)]


@pytest.mark.thorough
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_both_in_either_order_are_one_line_that_says_what_to_do(
    wheels: list[Path], order: tuple[int, int], tmp_path: Path
) -> None:
    environment = Environment(tmp_path)
    for number in order:
        environment.install(wheels[number])
    for words in (("--version",), ("imagenet", "--help"), ()):
        done = environment.dataprep(*words)
        assert (done.returncode, done.stdout) == (1, "")
        (line,) = done.stderr.splitlines()
        assert line.startswith("dataprep: error: the distribution dataprep 0.4.5 has a package")
        assert f"in {environment.site / 'dataprep'}," in line
        assert "; keep one: pip uninstall --yes dataprep && pip install --force-reinstall" in line
    environment.pip("uninstall", "--yes", "dataprep")
    done = environment.dataprep("--version")  # the first half alone is said, too
    assert done.returncode == 1
    assert done.stderr.startswith("dataprep: error: `import dataprep` finds no __init__.py")
    environment.install(wheels[0])
    done = environment.dataprep("--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split()[-1] == dataprep.__version__


def test_another_package_that_is_found_first_is_named_and_one_behind_is_not(
    wheels: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = Environment(tmp_path / "environment")
    environment.install(wheels[0])
    elsewhere = tmp_path / "elsewhere"
    with zipfile.ZipFile(wheels[1]) as archive:
        archive.extractall(elsewhere)
    with (environment.site / "others.pth").open("a") as file:
        file.write(f"\n{elsewhere}\n")
    assert environment.dataprep("--version").returncode == 0
    monkeypatch.setenv("PYTHONPATH", str(elsewhere))
    assert "the distribution dataprep 0.4.5 has" in environment.dataprep("--version").stderr
    shutil.rmtree(elsewhere / f"{NAME}.dist-info")
    done = environment.dataprep("--version")
    assert done.returncode == 1
    assert f"`import dataprep` finds {elsewhere}/dataprep/__init__.py, not this" in done.stderr
