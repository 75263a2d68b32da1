"""``dataprep synthesize`` as a user meets it, never over somebody's data."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dataprep.cli import command
from dataprep.errors import DatasetError, UsageError
from dataprep.synthesize.imagenet import synthesize_imagenet

TINY = {"classes": 1, "images_per_class": 2, "validation_images": 1}
SMALL = ("--classes", "2", "--images_per_class", "3", "--validation_images", "2")


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(command, ["synthesize", *map(str, arguments)])


RADIOGRAPHS = ("--patients", "6", "--size", "8", "--archives", "2")


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("imagenet", SMALL, ": 12 images in 2 classes, "),
        ("chestxray14", RADIOGRAPHS, " images of 6 patients, "),
    ],
)
def test_it_says_what_it_wrote_and_what_next(
    tmp_path: Path, name: str, options: tuple[str, ...], said: str
) -> None:
    directory = tmp_path / "my raw"
    result = run(name, directory, *options, "--defects")
    assert result.exit_code == 0
    first, *others = result.stdout.splitlines()
    assert first.startswith(f"wrote {directory}: ")
    assert said in first
    next_step = f"  dataprep {name} --raw_data_dir '{directory}' --local_scratch_dir OUT"
    assert others == ["next:", next_step]


def test_options_are_passed_on_or_refused(tmp_path: Path) -> None:
    for seed in ("0", "1"):
        assert run("imagenet", tmp_path / seed, *SMALL, "--layout", "tree", "--seed", seed)
    image = Path("validation", "ILSVRC2012_val_00000001.JPEG")
    assert (tmp_path / "0" / image).read_bytes() != (tmp_path / "1" / image).read_bytes()
    assert isinstance(run("imagenet", tmp_path / "x", "--classes", "1001").exception, UsageError)
    assert run("imagenet", tmp_path / "x", "--layout", "zip").exit_code == 2
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
