"""The three packages are one project, and light to import."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from functools import partial
from pathlib import Path

import pytest

import dataprep
import dataprep_pipelines
import dataprep_schemas


def test_all_three_packages_come_from_one_place() -> None:
    # A non-editable install and a checkout on sys.path would mix; that must fail loudly.
    root = Path(dataprep.__file__).parents[1]
    assert Path(str(dataprep_pipelines.__file__)).parents[1] in (root, root / "pipelines")
    assert Path(str(dataprep_schemas.__file__)).parents[1] in (root, root / "schemas")


def modules_after(statement: str) -> set[str]:
    program = f"import sys; {statement}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


HEAVY = {"apache_beam", "tensorflow", "numpy", "PIL"}


def test_importing_dataprep_loads_nothing_heavy() -> None:
    assert not HEAVY & modules_after("import dataprep, dataprep.cli")


def test_the_library_never_imports_beam() -> None:
    names = ("api.calls", "api.options", "jobs.running.seal", "sealed.verify", "datasets")
    imports = ", ".join(f"dataprep.{name}" for name in (*names, "training.records"))
    assert "apache_beam" not in modules_after(f"import {imports}")


def test_preparing_never_imports_tensorflow() -> None:
    statement = "import dataprep_pipelines.run, dataprep_pipelines.write"
    assert "tensorflow" not in modules_after(statement)


# Of GitHub's Python.gitignore, the patterns that could name a module or a folder of one.
IGNORED = """
__pycache__/ *.py[codz] *$py.class *.so .Python build/ develop-eggs/ dist/ downloads/ eggs/
.eggs/ lib/ lib64/ parts/ sdist/ var/ wheels/ share/python-wheels/ *.egg-info/ .installed.cfg
*.egg MANIFEST *.manifest *.spec pip-log.txt htmlcov/ .tox/ .nox/ .cache *.cover *.py.cover
.hypothesis/ cover/ *.mo *.pot *.log local_settings.py db.sqlite3 instance/ .webassets-cache
.scrapy docs/_build/ .pybuilder/ target/ profile_default/ ipython_config.py __pypackages__/
celerybeat-schedule .env .envrc .venv env/ venv/ ENV/ env.bak/ venv.bak/ /site .mypy_cache/
cython_debug/
"""


def test_a_wheel_is_whole_whatever_the_checkout_ignores(tmp_path: Path) -> None:
    root, clone = Path(dataprep.__file__).parents[1], tmp_path / "clone"
    if not (root / ".git").exists():
        pytest.skip("this is no checkout of git")
    run = partial(subprocess.run, check=True, capture_output=True, text=True)
    run(["git", "clone", "--quiet", str(root), str(clone)])
    with (clone / ".gitignore").open("a", encoding="utf-8") as file:
        file.write("\n".join(IGNORED.split()))
    run([sys.executable, "-m", "hatchling", "build", "-d", str(tmp_path)], cwd=clone)
    roots = ("dataprep", "pipelines/dataprep_pipelines", "schemas/dataprep_schemas")
    tree = {*run(["git", "ls-files", *roots], cwd=clone).stdout.split()}
    (wheel,), (sdist,) = tmp_path.glob("*.whl"), tmp_path.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        assert tree <= {name.partition("/")[2] for name in archive.getnames()}
    with zipfile.ZipFile(wheel) as packed:
        found = {name for name in packed.namelist() if ".dist-info/" not in name}
    (manual,) = (name for name in found if name.endswith(".data/data/share/man/man1/dataprep.1"))
    found.remove(manual)
    assert found == {name.removeprefix("pipelines/").removeprefix("schemas/") for name in tree}
