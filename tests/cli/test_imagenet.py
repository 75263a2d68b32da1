"""``dataprep imagenet``: what it says, what it refuses, and what it may delete."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Cli, Made, hashes


def test_it_says_what_it_found_decided_and_sealed(cli: Cli, tiny: Made, tmp_path: Path) -> None:
    result = cli(*tiny.command(tmp_path))
    lines = result.out.splitlines()
    assert lines[0].startswith("train: train/ (3 class folders)")
    assert lines[1].startswith("validation: validation/")
    assert any(line.startswith("train: 24 images") and "6 shards" in line for line in lines)
    assert lines[-1].startswith(f"sealed {tmp_path / 'manifest.json'}: 30 records in 8 shards")
    assert "Traceback" not in result.err


def test_a_limit_takes_that_many_of_each_split(cli: Cli, tiny: Made, tmp_path: Path) -> None:
    result = cli(*tiny.command(tmp_path, "--limit", 5, "--num_shards", "train=2,validation=1"))
    assert result.code == 0, result
    manifest = json.loads((tmp_path / "manifest.json").read_bytes())
    assert [split["records"] for split in manifest["splits"].values()] == [5, 5]


# --- a directory belongs to one job ---


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--quality", "80"), "was made with --quality 95, now 80; use"),
        (("--splits", "train", "--num_shards", "train=6"), "validation"),
    ],
)
def test_other_options_are_refused_naming_the_difference(
    cli: Cli, tiny: Made, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    out = tiny.copy(tmp_path / "out")
    result = cli(*tiny.command(out, *words))
    assert result.code == 1
    assert message in result.error
    assert "--overwrite" in result.error
    assert hashes(out) == tiny.files


def test_other_input_is_refused_naming_the_classes(cli: Cli, tiny: Made, tmp_path: Path) -> None:
    out = tiny.copy(tmp_path / "out")
    raw = tiny.raw.copy(tmp_path / "raw")
    image = min((raw.path / "train").glob("*/*.JPEG"))
    image.rename(image.with_name(f"{image.parent.name}_77.JPEG"))
    result = cli(*raw.command(out))
    assert result.code == 1
    assert "the raw data of train-n01440764-n01558993 changed" in result.error
    assert hashes(out) == tiny.files


def test_a_directory_in_use_is_refused_naming_host_and_process(
    cli: Cli, tiny: Made, tmp_path: Path
) -> None:
    out = tiny.copy(tmp_path / "out")
    program = (
        "import sys; from pathlib import Path; from dataprep.jobs.output.lock import locked;"
        "from dataprep.jobs.output.workspace import Workspace\n"
        "with locked(Workspace(Path(sys.argv[1]))): print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(out)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        result = cli(*tiny.command(out, "--overwrite"))
        assert result.code == 1
        assert f"process {holder.pid} on {socket.gethostname()}" in result.error
        status = cli("status", out)
        assert f"running, process {holder.pid} on {socket.gethostname()}" in status.out
        holder.kill()
    assert hashes(out) == tiny.files
    assert cli(*tiny.command(out)).code == 0  # the dead one's lock is taken over


# --- overwriting ---


def test_overwrite_deletes_what_dataprep_made_and_nothing_else(
    cli: Cli, tiny: Made, tmp_path: Path
) -> None:
    out = tiny.copy(tmp_path / "out")
    mine = {"notes.txt": "a", "train/README": "b", "index/train/.hidden": "c", "mine/d/e": "d"}
    for name, text in mine.items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_text(text)
    words = ("--overwrite", "--seed", "5", "--num_shards", "train=2,validation=1")
    assert cli(*tiny.command(out, *words)).code == 0
    assert cli(*tiny.command(tmp_path / "new", *words)).code == 0
    found = hashes(out)
    for name, text in mine.items():
        assert (out / name).read_text() == text
        del found[name]
    assert found == hashes(tmp_path / "new")


@pytest.mark.parametrize("overwrite", [(), ("--overwrite",)])
@pytest.mark.parametrize("name", ["train/train-00000-of-00008", "train/train-00000-of-00006"])
def test_somebody_else_s_shards_are_refused_and_kept(
    cli: Cli, tiny: Made, tmp_path: Path, name: str, overwrite: tuple[str, ...]
) -> None:
    foreign = tmp_path / name
    foreign.parent.mkdir(parents=True)
    foreign.write_bytes(b"years of work")
    result = cli(*tiny.command(tmp_path, *overwrite))
    assert result.code == 1
    assert f"{foreign} is in the way" in result.error
    assert list(hashes(tmp_path)) == [name]
    assert foreign.read_bytes() == b"years of work"
