"""The three packages are one project, and light to import."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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
    for name in (
        "api.calls",
        "api.options",
        "build.seal",
        "sealed.verify",
        "datasets",
        "sealed.records",
    ):
        assert "apache_beam" not in modules_after(f"import dataprep.{name}")


def test_preparing_never_imports_tensorflow() -> None:
    statement = "import dataprep_pipelines.run, dataprep_pipelines.write"
    assert "tensorflow" not in modules_after(statement)


def test_the_library_s_arrows_run_one_way() -> None:
    root = Path(dataprep.__file__).parent
    for source in root.rglob("*.py"):
        if source.parent.name not in ("cli", "api"):
            text = source.read_text(encoding="utf-8")
            assert "dataprep_pipelines" not in text, source
            # The tests of a plugin ask the command line for the names of its options.
            allowed = source.name == "__main__.py" or source.parent.name == "conformance"
            assert "dataprep.cli" not in text or allowed, source
