"""``dataprep synthesize`` as a user meets it: whole or nothing, and never over somebody's data."""

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


def test_imagenet_says_what_it_wrote_and_what_next(tmp_path: Path) -> None:
    directory = tmp_path / "my raw"
    result = run("imagenet", directory, *SMALL, "--defects")
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[0].startswith(f"wrote {directory}: 10 training images in 2 classes")
    next_step = f"  dataprep imagenet --raw_data_dir '{directory}' --local_scratch_dir OUT"
    assert lines[-2:] == ["next:", next_step]


def test_radiographs_are_written(tmp_path: Path) -> None:
    options = ("--patients", "6", "--size", "8", "--archives", "2", "--defects")
    result = run("chestxray14", tmp_path / "raw", *options)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith(f"wrote {tmp_path / 'raw'}: ")
    assert "images of 6 patients" in result.stdout


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


class StopHere(BaseException):
    """Stands for Ctrl-C."""


@pytest.mark.parametrize("last", [1, 2])
def test_an_interrupted_run_leaves_nothing(tmp_path: Path, last: int) -> None:
    seen: set[str] = set()

    def progress(done: int, total: int) -> None:
        assert (done <= total, total) == (True, 3)
        seen.update(path.name for path in (tmp_path / "raw").iterdir())
        if done == last:
            raise StopHere

    with pytest.raises(StopHere):
        synthesize_imagenet(tmp_path / "raw", progress=progress, **TINY)
    assert seen == {".synthesize.partial"}
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_one_clear_line_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_bytes(path: Path, _: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr(Path, "write_bytes", write_bytes)
    with pytest.raises(DatasetError, match=r"No space left on device.*room enough") as caught:
        synthesize_imagenet(tmp_path / "raw", layout="tree", **TINY)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_ever_replaced_but_what_a_killed_run_left(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(DatasetError, match="cannot write to"):
        synthesize_imagenet(tmp_path / "file", **TINY)
    raw = tmp_path / "raw"
    (raw / ".synthesize.partial" / "train").mkdir(parents=True)
    synthesize_imagenet(raw, **TINY)
    names = ["ILSVRC2012_img_train.tar", "ILSVRC2012_img_val.tar"]
    assert sorted(path.name for path in raw.iterdir()) == names
    before = {name: (raw / name).read_bytes() for name in names}
    with pytest.raises(DatasetError, match=r"holds ILSVRC2012_img_train\.tar.*or remove it first"):
        synthesize_imagenet(raw, seed=1, **TINY)
    assert {path.name: path.read_bytes() for path in raw.iterdir()} == before
