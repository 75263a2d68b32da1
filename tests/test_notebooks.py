"""``dataprep.prepare`` in a real Jupyter kernel, whichever pandas is there."""

from __future__ import annotations

import json
import os
import re
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import BEAM, PANDAS, Made, hashes

NEEDED = ("nbclient", "ipykernel")

# In pandas' place, since `make readers` installs one.
ABSENT = "raise ModuleNotFoundError(\"No module named 'pandas'\", name='pandas')\n"

PREPARE = """
import sys

import dataprep

try:
    import pandas
except ModuleNotFoundError:
    assert {version!r} == "no"
else:
    assert pandas.__version__.startswith({version!r}), pandas.__version__

sealed = dataprep.prepare("imagenet", raw={raw!r}, out={out!r}, **{options!r})
print(sealed)
labels = sys.modules["apache_beam.pipeline"].alter_label_if_ipython
assert labels.__module__.startswith("apache_beam.")  # the user's own pipelines have theirs
assert "apache_beam.runners.interactive.interactive_environment" not in sys.modules
"""


@pytest.mark.skipif(
    not all(map(find_spec, NEEDED)), reason="needs nbclient and ipykernel, which run a notebook"
)
@pytest.mark.parametrize(
    "version",
    ["no", *(pytest.param(version, marks=pytest.mark.thorough) for version in PANDAS)],
)
def test_prepare_works_in_a_notebook_and_loads_nothing_into_the_page(
    version: str, tiny: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = PANDAS.get(version, tmp_path)
    if version == "no":
        (place / "pandas.py").write_text(ABSENT)
    elif not (place / ".ready").exists():
        pytest.skip(f"needs pandas {version} in {place}: make readers")
    monkeypatch.setenv("PYTHONPATH", os.fspath(place))
    monkeypatch.setenv("IPYTHONDIR", os.fspath(tmp_path / "ipython"))
    import nbclient
    import nbformat

    options: dict[str, Any] = {"num_shards": {"train": 6, "validation": 2}, "workers": 1}
    options["beam_options"] = [*BEAM[1:]]  # which has its own way with notebooks
    raw, out = os.fspath(tiny.raw.path), tmp_path / "out"
    code = PREPARE.format(version=version, raw=raw, out=os.fspath(out), options=options)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    outputs = notebook.cells[0].outputs
    page = json.dumps(outputs).lower()
    assert "sealed" in page
    for foreign in ("<script", "require", "http", "warning"):
        assert foreign not in page, page
    assert {output.output_type for output in outputs} == {"stream"}, page
    assert hashes(out) == tiny.files


@pytest.mark.skipif(
    not all(map(find_spec, NEEDED)), reason="needs nbclient and ipykernel, which run a notebook"
)
@pytest.mark.thorough  # one kernel a day
def test_a_mistake_is_a_line_and_sets_are_tables_with_pictures(
    tiny: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IPYTHONDIR", os.fspath(tmp_path / "ipython"))
    import nbclient
    import nbformat

    out = os.fspath(tiny.out)
    broken = tiny.copy(tmp_path / "broken")
    shutil.rmtree(broken / "train")
    sealed = f"import dataprep, pathlib\ndataprep.SealedSet.read(pathlib.Path({out!r}))"
    cells = [
        f"import dataprep\ndataprep.open({out!r}, split='trane')",
        f"dataprep.prepare('folder', raw={out!r}, out='OUT', workers='many')",
        sealed,
        f"dataprep.open({out!r})",
        f"dataprep.open({os.fspath(broken)!r})",
        "%xmode Verbose",
        f"dataprep.open({out!r}, split='trane')",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(it) for it in cells])
    client = nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3")
    client.allow_errors = True
    client.execute()
    said = [cell.outputs for cell in notebook.cells]
    assert said[0][0].traceback == [
        f"UsageError: {out} has no split 'trane'; it has: train, validation"
    ]
    assert len(said[1][0].traceback) == 1
    assert "'many' is not a valid integer" in said[1][0].traceback[0]
    page = said[2][0].data["text/html"]
    assert "<td>train</td><td>24</td><td>6</td>" in page
    page = said[3][0].data["text/html"]
    assert page.count('<img src="data:image/png;base64,') == 5
    assert "24 of 24 records of train in" in page
    page = said[4][0].data["text/html"]
    assert "train-00000-of-00006" in page, "it says what is missing"
    assert "<img" not in page
    assert "split_called" in str(said[6]), "all of it, for who asks"


@pytest.mark.thorough
@pytest.mark.skipif(
    not all(map(find_spec, (*NEEDED, "torch"))),
    reason="needs nbclient and ipykernel, which run a notebook, and torch: make readers",
)
def test_the_tutorial_shows_what_it_says(tmp_path: Path) -> None:
    """All of it in a kernel: what it prints is what is kept in it, but for numbers."""
    import nbformat

    from tests.tutorial import NOTEBOOK, executed

    kept = nbformat.read(NOTEBOOK, as_version=4)
    shown = [_shown(notebook) for notebook in (kept, executed(tmp_path))]
    assert shown[0] == shown[1], "python -m tests.tutorial runs it anew"
    page = json.dumps(kept)
    assert page.count("data:image/png;base64,") >= 6
    assert "Traceback" not in page


def _shown(notebook: Any) -> list[list[tuple[str, str]]]:
    """Of each cell the outputs without numbers, and without the kind of a file system."""
    found = []
    for cell in notebook.cells:
        texts = []
        for output in cell.get("outputs", ()):
            text = output.get("text") or output["data"]["text/plain"]
            text = re.sub(r"\(--to, \w+\)", "(--to)", text)
            texts.append((output.output_type, re.sub(r"[\d.,]+|[KMG]B\b", "#", text)))
        found.append(texts)
    return found
