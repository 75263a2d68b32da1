"""Every command and every program of the guides runs, one after the other, as a reader would."""

from __future__ import annotations

import csv
import os
import re
import runpy
import shlex
from pathlib import Path

import pytest
from PIL import Image

from tests.conftest import Cli

DOCS = Path(__file__).parents[1] / "docs"
GUIDES = sorted(DOCS.glob("guide-*.md"))
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LIBRARIES = ("torch", "tensorflow", "pandas")


def write_photographs(place: Path) -> None:
    """Three classes of ten images each, as ImageFolder reads them."""
    for name in ("cat", "dog", "owl"):
        folder = place / name
        folder.mkdir(parents=True)
        for number in range(10):
            image = Image.effect_noise((320 + number, 300), 40 + number).convert("RGB")
            image.save(folder / f"{name}-{number}.jpg")


def write_scans(place: Path) -> None:
    """Radiographs of thirty patients in one folder, and a table of their findings."""
    place.mkdir()
    with (place / "labels.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["path", "label", "patient"])
        for number in range(60):
            name = f"{number:03d}.png"
            Image.effect_noise((64, 64), 30 + number).save(place / name)
            table.writerow([name, ("Edema", "Edema|Mass", "Mass")[number % 3], number // 2])


@pytest.fixture(scope="module")
def place(cli: Cli, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where RAW, CXR, photos and scans are."""
    place = tmp_path_factory.mktemp("guides")
    assert cli("synthesize", "imagenet", place / "RAW").code == 0
    assert cli("synthesize", "chestxray14", place / "CXR", "--size", "64").code == 0
    write_photographs(place / "photos")
    write_scans(place / "scans")
    return place


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.stem)
def test_a_guide_works_as_it_is_written(
    guide: Path, cli: Cli, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = guide.read_text("utf-8")
    assert len(text.splitlines()) <= 80
    for raw in place.iterdir():
        (tmp_path / raw.name).symlink_to(raw)
    monkeypatch.chdir(tmp_path)
    for language, code in BLOCK.findall(text):
        if language == "sh":
            for command in code.replace("\\\n", " ").splitlines():
                program, *words = shlex.split(command)
                assert program == "dataprep"
                done = cli(*words)
                assert done.code == 0, done.err
        else:
            for library in LIBRARIES:
                if f"import {library}" in code or f"from {library}" in code:
                    pytest.importorskip(library)
            script = tmp_path / "program.py"
            script.write_text(code, "utf-8")
            runpy.run_path(os.fspath(script), run_name="__main__")
