"""Raw data that vanishes, shrinks or is forbidden, and places that cannot be written to."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.conftest import Cli, Made, hashes, leftovers

AsUser = Callable[[], AbstractContextManager[None]]


def an_image(raw: Path) -> Path:
    return min((raw / "train").glob("*/*.JPEG"))


def keeping_the_time_of_its_folder(image: Path, change: Callable[[Path], object]) -> None:
    """As if it happened between the scan and the write."""
    before = image.parent.stat()
    change(image)
    os.utime(image.parent, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_an_image_that_changed_since_the_scan_is_named_and_never_rejected(
    cli: Cli, tiny: Made, tmp_path: Path
) -> None:
    raw = tiny.raw.copy(tmp_path / "raw")
    index = ("--index_dir", tmp_path / "index")
    assert cli(*raw.command(tmp_path / "first", *index)).code == 0
    image = an_image(raw.path)
    content, time = image.read_bytes(), image.stat().st_mtime_ns
    keeping_the_time_of_its_folder(image, lambda path: os.truncate(path, 40))
    out = tmp_path / "out"
    result = cli(*raw.command(out, *index, "--max_bad", "100%"))
    assert result.code == 1
    assert image.relative_to(raw.path).as_posix() in result.error
    assert "changed since it was indexed" in result.error
    assert not (out / "manifest.json").exists()
    assert leftovers(out) == []
    keeping_the_time_of_its_folder(image, lambda path: path.write_bytes(content))
    os.utime(image, ns=(time, time))
    assert cli(*raw.command(out, *index, "--max_bad", "100%")).code == 0
    assert hashes(out) == tiny.files


def test_a_forbidden_image_stops_the_run_and_is_not_rejected(
    cli: Cli, tiny: Made, public_path: Path, ordinary_user: AsUser
) -> None:
    raw = tiny.raw.copy(public_path / "raw")
    image = an_image(raw.path)
    image.chmod(0)
    out = public_path / "out"
    with ordinary_user():
        result = cli(*raw.command(out, "--max_bad", "100%"))
        assert result.code == 1
        assert f"cannot read {image.relative_to(raw.path).as_posix()}" in result.error
        assert "Permission denied" in result.error
    assert not (out / "manifest.json").exists()
    image.chmod(0o644)
    with ordinary_user():
        assert cli(*raw.command(out, "--max_bad", "100%")).code == 0
    assert hashes(out) == tiny.files


@pytest.mark.parametrize("name", ["manifest.json", "records.parquet"])
def test_a_forbidden_file_of_a_set_is_not_said_to_be_made_again(
    cli: Cli, tiny: Made, public_path: Path, ordinary_user: AsUser, name: str
) -> None:
    out = tiny.copy(public_path / "out")
    (out / name).chmod(0)
    with ordinary_user():
        error = cli("lint", out).error
    assert f"{out / name} cannot be read: Permission denied; change its permissions" in error
    assert "again" not in error
