"""``python -m tests.tutorial``: run examples/tutorial.ipynb, and keep what it shows."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import nbformat

_BAR = re.compile(r"^\w+: +\d+%\|.*")
NOTEBOOK = Path(__file__).parent.parent / "examples" / "tutorial.ipynb"
SECONDS = 600


def executed(place: Path) -> Any:
    """The notebook as it is after a run in a directory, where it leaves what it makes."""
    import nbclient

    notebook = nbformat.read(NOTEBOOK, as_version=4)
    # Whose dataprep the shell finds.
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    os.environ["IPYTHONDIR"] = os.fspath(place / "ipython")
    resources = {"metadata": {"path": os.fspath(place)}}
    nbclient.NotebookClient(
        notebook, timeout=SECONDS, kernel_name="python3", resources=resources
    ).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # when it ran
        if cell.cell_type == "code":
            cell.outputs = [*_settled(cell.outputs)]
    text = nbformat.writes(notebook).replace(os.fspath(place), "/home/you")
    return nbformat.reads(text, as_version=4)


def _settled(outputs: list[Any]) -> Iterator[Any]:
    """Outputs as they stand at the end: streams in one piece, bars as they were last drawn."""
    for name in ("stdout", "stderr"):
        text = "".join(output.text for output in outputs if output.get("name") == name)
        lines = text.replace("\r\n", "\n").split("\n")
        drawn = (_BAR.sub("", line.rpartition("\r")[2]) for line in lines)
        if shown := "\n".join(filter(None, drawn)):
            yield nbformat.v4.new_output("stream", name=name, text=f"{shown}\n")
    yield from (output for output in outputs if output.output_type != "stream")


if __name__ == "__main__":
    with TemporaryDirectory() as name:
        found = executed(Path(name))
    NOTEBOOK.write_text(f"{nbformat.writes(found).rstrip()}\n", encoding="utf-8")
