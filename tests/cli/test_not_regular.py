"""A pipe, a device or a directory in a file's place: one line, no waiting, no endless reading."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from dataprep.datasets.reading import close_archives, read_image
from dataprep.errors import SourceError
from dataprep.rows import Row
from dataprep.system import regular_files
from tests.conftest import FORMATS, Cli, Made, Shelf, hashes

SHARD = "train/train-00002-of-00006"
RECORD = ".dataprep/commits/train-00002-of-00006.json"


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _directory(path: Path) -> None:
    path.mkdir()


KINDS = {"pipe": _pipe, "device": _device, "directory": _directory}


@pytest.fixture(params=KINDS)
def put(request: pytest.FixtureRequest) -> Callable[[Path], Path]:
    """Puts something else in the place of a file."""

    def replace(path: Path) -> Path:
        path.unlink(missing_ok=True)
        KINDS[request.param](path)
        return path

    return replace


Put = Callable[[Path], Path]


@pytest.mark.parametrize("offset", [0, 512])
def test_as_raw_file(put: Put, tmp_path: Path, offset: int) -> None:
    put(tmp_path / "a.jpg")
    row = Row("a.jpg", "a.jpg", offset, 10, 0, (0,))
    with pytest.raises(SourceError, match=r"cannot read a\.jpg: (no regular file|Is a directory)"):
        read_image(tmp_path, row)
    close_archives()


@pytest.mark.parametrize(
    ("raw", "option"),
    [
        ("folders", "--classes"),
        ("folders", "--listing"),
        ("radiographs", "--labels"),
        ("tiny", "--exclude"),
        ("tiny", "--bbox_csv"),
    ],
)
def test_as_list(
    put: Put, cli: Cli, tmp_path: Path, request: pytest.FixtureRequest, raw: str, option: str
) -> None:
    path = put(tmp_path / "list.csv")
    made = request.getfixturevalue(raw)
    result = cli(*made.command(tmp_path / "out", option, path))
    assert result.code in (1, 2)
    assert "o regular file" in result.error or "s a directory" in result.error


@pytest.mark.parametrize("command", ["inspect", "verify", "stage"])
def test_as_manifest(put: Put, cli: Cli, tiny: Made, tmp_path: Path, command: str) -> None:
    out = tiny.copy(tmp_path / "out")
    put(out / "manifest.json")
    more = ("--to", tmp_path / "node") if command == "stage" else ()
    assert cli(command, out, *more).error.count("manifest.json") >= 1


def test_as_lock(put: Put, cli: Cli, tiny: Made, tmp_path: Path) -> None:
    out = tiny.copy(tmp_path / "out")
    lock = put(out / ".dataprep/lock")
    result = cli(*tiny.command(out, "--overwrite"))
    if not lock.exists():  # an empty directory makes way
        assert result.code == 0, result
        assert hashes(out) == tiny.files
    else:
        assert "lock" in result.error


def test_as_record(put: Put, cli: Cli, tiny: Made, tmp_path: Path) -> None:
    """A record that is none counts as not there; only a directory is not removed."""
    out = tiny.copy(tmp_path / "out")
    (out / "manifest.json").unlink()
    record = put(out / RECORD)
    assert "5 of 6" in cli("status", out).out
    if record.is_dir():
        record.rmdir()
    result = cli(*tiny.command(out))
    assert result.code == 0, result
    assert hashes(out) == tiny.files


@pytest.mark.thorough
@pytest.mark.parametrize("name", FORMATS)
def test_as_file_of_a_data_set(put: Put, cli: Cli, shelf: Shelf, tmp_path: Path, name: str) -> None:
    made = shelf(name)
    for file in made.files:
        if file == "manifest.json":
            continue
        out = made.copy(tmp_path / "out")
        path = put(out / file)
        result = cli("verify", out, "--level", "records")
        assert result.code == 1
        assert str(path.relative_to(out)) in result.out + result.error
        assert cli("inspect", path).error.startswith("dataprep: error: ")
        shutil.rmtree(out)


def test_a_state_without_end_is_not_read(
    cli: Cli, tiny: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tiny.copy(tmp_path / "out")
    monkeypatch.setattr(regular_files, "MOST_BYTES", 1000)
    error = cli("inspect", out).error
    assert "manifest.json" in error
    assert "expected 1,000 at most" in error
