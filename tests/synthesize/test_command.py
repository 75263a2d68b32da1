"""``dataprep synthesize`` as a user meets it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dataprep.cli import command
from dataprep.errors import DatasetError


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(command, ["synthesize", "imagenet", *map(str, arguments)])


SMALL = ("--classes", "2", "--images_per_class", "3", "--validation_images", "2")


def test_it_writes_the_set_and_says_what_and_what_next(tmp_path: Path) -> None:
    directory = tmp_path / "my raw"
    result = run(directory, *SMALL, "--defects")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].startswith(f"wrote {directory} (layout tar): 10 training images in 2 classes")
    assert sum("CMYK" in line for line in lines) == 1
    assert sum("PNG" in line for line in lines) == 1
    assert sum("damaged" in line for line in lines) == 4
    assert lines[-1].strip() == (
        f"dataprep imagenet --raw_data_dir '{directory}' --local_scratch_dir OUT"
    )
    assert (directory / "ILSVRC2012_img_train.tar").exists()


def test_it_is_quiet_on_stderr_when_that_is_no_terminal(tmp_path: Path) -> None:
    assert run(tmp_path / "raw", *SMALL).stderr == ""


def test_tree_seed_and_overwrite_are_passed_on(tmp_path: Path) -> None:
    run(tmp_path, *SMALL, "--layout", "tree")
    image = tmp_path / "validation" / "ILSVRC2012_val_00000001.JPEG"
    before = image.read_bytes()
    assert isinstance(run(tmp_path, *SMALL, "--layout", "tree").exception, DatasetError)
    result = run(tmp_path, *SMALL, "--layout", "tree", "--seed", "1", "--overwrite")
    assert result.exit_code == 0
    assert image.read_bytes() != before


@pytest.mark.parametrize("option", [("--classes", "1001"), ("--layout", "zip")])
def test_impossible_options_are_usage_errors(tmp_path: Path, option: tuple[str, str]) -> None:
    assert run(tmp_path / "raw", *option).exit_code == 2
    assert not (tmp_path / "raw").exists()


def radiographs(*arguments: str | Path) -> Result:
    return CliRunner().invoke(command, ["synthesize", "chestxray14", *map(str, arguments)])


def test_radiographs_are_written_and_the_special_ones_named(tmp_path: Path) -> None:
    directory = tmp_path / "my raw"
    result = radiographs(
        directory, "--patients", "6", "--size", "8", "--archives", "2", "--defects"
    )
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    lines = result.stdout.splitlines()
    assert lines[0].startswith(f"wrote {directory} (layout tar.gz): ")
    assert "of 6 patients in 2 archives" in lines[0]
    special = [line for line in lines if line.startswith("special: ")]
    meanings = ("RGBA", "palette", "16 bits", "RGBA", "ends too early", "not listed", "missing")
    assert all(meaning in line for meaning, line in zip(meanings, special, strict=True))
    assert lines[-2:] == [
        "next:",
        f"  dataprep chestxray14 --raw_data_dir '{directory}' --local_scratch_dir OUT",
    ]


def test_radiographs_of_a_csv(tmp_path: Path) -> None:
    labels = tmp_path / "labels.csv"
    labels.write_text("Image Index,Finding Labels\n00000001_000.png,Hernia\n")
    result = radiographs(tmp_path / "raw", "--csv", labels, "--layout", "flat", "--size", "8")
    assert result.exit_code == 0, result.output
    assert [path.name for path in (tmp_path / "raw" / "images").iterdir()] == ["00000001_000.png"]
    copy = tmp_path / "raw" / "Data_Entry_2017_v2020.csv"
    assert copy.read_bytes() == labels.read_bytes()


def test_help_needs_neither_numpy_nor_pillow() -> None:
    program = (
        "import sys; import dataprep.cli.synthesize; "
        "sys.exit(any(name in sys.modules for name in ('numpy', 'PIL', 'tqdm')))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
