"""What must never be lost or said: found by a review, kept by a test each."""

from __future__ import annotations

import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.conftest import DATAPREP, Cli, Made, hashes


@pytest.mark.parametrize(
    "words", [("--num_shards", "train=999"), ("--bbox_csv", "BAD"), ("--sink", "nope")]
)
def test_overwrite_keeps_the_old_set_until_nothing_can_be_refused(
    cli: Cli, tiny: Made, tmp_path: Path, words: tuple[str, str]
) -> None:
    out = tiny.copy(tmp_path / "out")
    bad = tmp_path / "boxes.csv"
    bad.write_text("not a box\n")
    given = [str(bad) if word == "BAD" else word for word in words]
    assert cli(*tiny.command(out, "--overwrite", *given)).code != 0
    assert hashes(out) == tiny.files


def test_overwrite_knows_a_sealed_set_by_its_manifest_alone(
    cli: Cli, tiny: Made, tmp_path: Path
) -> None:
    out = tiny.copy(tmp_path / "out")
    shutil.rmtree(out / ".dataprep")
    assert "use --overwrite" in cli(*tiny.command(out)).error
    assert (out / "manifest.json").exists()
    assert cli(*tiny.command(out, "--overwrite")).code == 0
    assert hashes(out) == tiny.files


def test_an_index_among_the_shards_or_the_raw_data_is_refused(
    cli: Cli, tiny: Made, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    for place in (out, out / "train", tiny.raw.path / "train"):
        result = cli(*tiny.command(out, "--index_dir", place))
        assert result.code == 2
        assert "--index_dir" in result.error
    assert not out.exists()
    assert cli(*tiny.command(out, "--index_dir", out / "mine")).code == 0


def test_a_hang_up_under_nohup_changes_nothing(tiny: Made, tmp_path: Path) -> None:
    out = tmp_path / "out"
    job = subprocess.Popen(
        ["nohup", *DATAPREP, *tiny.command(out)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert job.stdout is not None
    job.stdout.readline()  # it has begun
    job.send_signal(signal.SIGHUP)
    job.communicate(timeout=120)
    assert job.returncode == 0
    assert hashes(out) == tiny.files


def test_a_closed_terminal_does_not_stop_the_job(tiny: Made, tmp_path: Path) -> None:
    out = tmp_path / "out"
    job = subprocess.Popen(
        [*DATAPREP, *tiny.command(out)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert job.stdout is not None
    job.stdout.close()
    assert job.stderr is not None
    printed = job.stderr.read()
    job.stderr.close()
    assert job.wait(timeout=120) == 0
    assert "cannot be written" not in printed
    assert hashes(out) == tiny.files
