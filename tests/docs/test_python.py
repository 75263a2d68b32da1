"""docs/python.md runs from top to bottom."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from dataprep_schemas import imagenet_classes
from tests.conftest import Made
from tests.docs.pages import DOCS, ROOT, said
from tests.docs.test_readme import known

PAGE = DOCS / "python.md"


def test_the_python_page_runs_from_top_to_bottom(
    tiny: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(PAGE.read_text("utf-8").splitlines()) <= 120
    blocks = list(said(r"```python\n([\s\S]*?)```", PAGE))
    assert len(blocks) == 7
    monkeypatch.chdir(tmp_path)
    (tmp_path / "RAW").symlink_to(tiny.raw.path)
    place: dict[str, Any] = {"__name__": "__main__"}
    for where, block in blocks:
        # As if it stood there: a traceback names the line of the page.
        line = int(where.rpartition(":")[2])
        exec(compile("\n" * line + block[1], str(ROOT / PAGE), "exec"), place)
    example = place["records"][0]
    assert place["labels"].tolist() == [known(one.key) for one in place["records"]]
    assert imagenet_classes()[place["labels"][0]] == (place["identifier"], place["name"])
    assert place["picture"].size == (16, 16)
    assert place["pixels"].tobytes() == Image.open(io.BytesIO(example.encoded)).tobytes()
    assert place["images"].shape == (8, 224, 224, 3)
    assert place["targets"].shape == (8,)
    printed = capsys.readouterr().out
    assert "dataprep imagenet has no option 'sinc'; did you mean sink?\n" in printed
    assert "write: 100% 30/30 images" in printed
    assert printed.count("sealed OUT/manifest.json: 30 records in 6 shards") == 1
