"""Metadata for Megatron-Energon is what it makes itself; review/test_loaders.py reads by it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.conftest import Cli, Made

pytestmark = pytest.mark.skipif(
    find_spec("megatron") is None or find_spec("torch") is None,
    reason="megatron-energon is not installed",
)

PREPARE = """
import sys
from pathlib import Path
from megatron.energon.flavors.webdataset.prepare import WebdatasetPreparator

if __name__ == "__main__":
    WebdatasetPreparator.prepare_dataset(Path(sys.argv[1]), sys.argv[2:], workers=1,
                                         split_parts_patterns=[("train", ".*")])
"""


def run(directory: Path, source: str, *words: str) -> str:
    script = directory / "script.py"
    script.write_text(source)
    done = subprocess.run(
        [sys.executable, str(script), *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def out(cli: Cli, tiny: Made, tmp_path: Path) -> Path:
    words = ("--sink", "webdataset", "--sink_option", "energon=yes")
    result = cli("convert", tiny.out, "--to", tmp_path / "out", *words)
    assert result.code == 0, result
    assert cli("verify", tmp_path / "out").code == 0
    return tmp_path / "out"


def test_the_metadata_is_what_energon_makes(out: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    names = sorted(path.name for path in (out / "train").glob("*.tar"))
    for name in names:
        shutil.copy(out / "train" / name, theirs)
    run(tmp_path, PREPARE, str(theirs), *names)
    for name in names:
        ours = (out / "train" / f"{name}.idx").read_bytes()
        assert ours == (theirs / f"{name}.idx").read_bytes()
    ours = json.loads((out / "train/.nv-meta/.info.json").read_text())
    made = json.loads((theirs / ".nv-meta/.info.json").read_text())
    assert ours["shard_counts"] == made["shard_counts"]
