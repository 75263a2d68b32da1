"""``dataprep synthesize`` as a user meets it, never over somebody's data."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dataprep.cli import command
from dataprep.errors import DatasetError, UsageError
from dataprep.synthesize.imagenet import synthesize_imagenet
from tests.conftest import everyday

TINY: dict[str, Any] = {"classes": 1, "images_per_class": 2, "validation_images": 1}


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(command, ["synthesize", *map(str, arguments)])


@pytest.mark.parametrize(
    ("name", "options", "said"),
    everyday(
        [("chestxray14", ("--patients", "6", "--size", "8"), " images of 6 patients, ")],
        [("imagenet", ("--classes", "2", "--images_per_class", "3"), ": 56 images in 2 classes")],
    ),
)
def test_it_says_what_it_wrote_and_what_next(
    tmp_path: Path, name: str, options: tuple[str, ...], said: str
) -> None:
    directory = tmp_path / "my raw"
    result = run(name, directory, *options)
    assert result.exit_code == 0
    first, *others = result.stdout.splitlines()
    assert first.startswith(f"wrote {directory}: ")
    assert said in first
    next_step = f"  dataprep {name} --raw_data_dir '{directory}' --local_scratch_dir OUT"
    assert others == ["next:", next_step]


def test_a_number_out_of_range_is_refused(tmp_path: Path) -> None:
    assert isinstance(run("imagenet", tmp_path / "x", "--classes", "1001").exception, UsageError)
    assert isinstance(run("chestxray14", tmp_path / "x", "--size", "7").exception, UsageError)
    assert not (tmp_path / "x").exists()


def test_help_needs_neither_numpy_nor_pillow() -> None:
    program = (
        "import sys; import dataprep.cli.synthesize; "
        "sys.exit(any(name in sys.modules for name in ('numpy', 'PIL', 'tqdm')))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_full_disk_is_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write_bytes(path: Path, _: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr(Path, "write_bytes", write_bytes)
    with pytest.raises(DatasetError, match=r"No space left on device.*room enough") as caught:
        synthesize_imagenet(tmp_path / "raw", layout="tree", **TINY)
    assert "\n" not in str(caught.value)


def test_nothing_is_ever_replaced(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for place, words in ((tmp_path / "file", "cannot write to"), (tmp_path, "holds file")):
        with pytest.raises(DatasetError, match=words):
            synthesize_imagenet(place, **TINY)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]
