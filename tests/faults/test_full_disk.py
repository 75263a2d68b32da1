"""A disk that is too small is refused at once; one that fills up loses nothing that is finished."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.conftest import Cli, Made, hashes, leftovers

# Runs the command line with a limit on the size of every file, as `ulimit -f` sets it.
_LIMITED = """
import resource, sys
from dataprep.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
sys.exit(main(sys.argv[2:]))
"""


@pytest.fixture
def optimist(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The estimate believes that there is room, as it would if others filled the disk later."""
    monkeypatch.setattr(
        "dataprep.jobs.build_directory.shutil.disk_usage",
        lambda path: SimpleNamespace(free=1 << 40),
    )
    return monkeypatch


def test_a_disk_that_is_too_small_is_refused_before_anything_is_written(
    cli: Cli, photos: Made, small_disk: Callable[[str], Path]
) -> None:
    out = small_disk("2m")
    result = cli(*photos.command(out))
    assert result.code == 1
    assert " needed, " in result.error
    assert " free; " in result.error
    assert hashes(out) == {}
    small_disk("32m")
    assert cli(*photos.command(out)).code == 0
    assert hashes(out) == photos.files


@pytest.mark.thorough
def test_a_disk_that_is_full_at_any_time_is_one_clear_line_and_is_healed(
    cli: Cli, photos: Made, small_disk: Callable[[str], Path], optimist: pytest.MonkeyPatch
) -> None:
    disk = small_disk("64m")
    unclear = {}
    # From a disk that takes not even the lock to one that takes all shards but no manifest.
    for free in (0, 4, 12, 24, 44, 64, 80, 4200, 4400):
        out = disk / "out"
        out.mkdir()
        filler = disk / "filler"
        filler.write_bytes(bytes(free_bytes(disk) - free * 1024))
        result = cli(*photos.command(out, "--workers", 1))
        filler.unlink()
        if result.code:
            error = result.error
            if "no space left" not in error.lower() or "unexpected" in error or "defect" in error:
                unclear[free] = error
            assert cli(*photos.command(out, "--workers", 1)).code == 0
        assert hashes(out) == photos.files, free
        assert leftovers(out) == [], free
        shutil.rmtree(out)
    assert unclear == {}


def free_bytes(path: Path) -> int:
    line = subprocess.run(
        ["df", "--output=avail", "-B1", str(path)], capture_output=True, text=True, check=True
    )
    return int(line.stdout.split()[1])


def test_a_limit_on_the_size_of_files_is_named(cli: Cli, photos: Made, tmp_path: Path) -> None:
    out = tmp_path / "out"
    limited = [sys.executable, "-c", _LIMITED, "300000", *photos.command(out, "--workers", 2)]
    process = subprocess.Popen(
        limited, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    result = cli.done(process)
    assert result.code == 1
    assert "cannot be written while writing" in result.error
    assert "File too large, files may have 300.0 KB here (ulimit -f)" in result.error
    assert [name for name in leftovers(out) if not name.endswith("failure.json")] == []
    assert cli(*photos.command(out)).code == 0
    assert hashes(out) == photos.files
