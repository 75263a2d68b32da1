"""``dataprep status`` and ``dataprep inspect``: what is there, on any host, touching nothing."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path

import pytest
from PIL import Image

from tests.conftest import Cli, Made, Raw
from tests.jobs.markers import claim_of


def everything(out: Path) -> dict[Path, tuple[int, int]]:
    return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in out.rglob("*")}


def test_status_of_a_sealed_set(cli: Cli, tiny: Made) -> None:
    before = everything(tiny.out)
    result = cli("status", tiny.out)
    assert result.code == 0
    assert result.out.splitlines() == [
        f"{tiny.out}: sealed",
        "train: 6 of 6 shards, 24 of 24 images",
        "validation: 2 of 2 shards, 6 of 6 images",
    ]
    assert everything(tiny.out) == before


def test_status_of_an_unfinished_run(cli: Cli, tiny: Made, tmp_path: Path) -> None:
    out = tiny.copy(tmp_path / "out")
    (out / "manifest.json").unlink()
    result = cli("status", out)
    assert "every shard is there, not sealed; run the same command again to seal it" in result.out
    (out / "train" / "train-00003-of-00006").unlink()
    result = cli("status", out)
    assert "not running and not finished; run the same command again to resume" in result.out
    assert "train: 5 of 6 shards, 20 of 24 images" in result.out


def test_the_recipe_is_told_where_a_command_is_to_be_run_again(
    cli: Cli, spoilt: Raw, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    words = ("--seed", "7", "--resize", "16", "--sink", "recordio")
    assert cli(*spoilt.command(out, *words)).code == 3
    recipe = (
        "recipe: imagenet --resize 16 --layout split --num_shards train=3 "
        "--num_shards validation=1 --seed 7 --shuffle train=stratified --shuffle validation=none "
        "--sink recordio"
    )
    assert recipe in cli("status", out).out.splitlines()
    assert cli(*spoilt.command(out, *words, "--max_bad", "4")).code == 0
    assert "\nrecipe: " not in cli("status", out).out
    assert recipe in cli("inspect", out).out.splitlines()
    assert f"recipe: {json.loads(cli('inspect', out, '--json').out)['recipe']}" == recipe


@pytest.mark.parametrize(
    ("silent", "state"), [(0, "running, "), (5000, "probably dead, ")], ids=["alive", "silent"]
)
def test_status_of_a_run_on_another_host(
    cli: Cli, tiny: Made, tmp_path: Path, silent: int, state: str
) -> None:
    out = tiny.copy(tmp_path / "out")
    (out / "manifest.json").unlink()
    lock = out / ".dataprep" / "lock"
    lock.write_text(claim_of("node-0815", process=4711))
    os.utime(lock, (time.time() - silent, time.time() - silent))
    first = cli("status", out).out.splitlines()[0]
    pattern = rf"{re.escape(str(out))}: {state}process 4711 on node-0815, last sign of life .*"
    assert re.fullmatch(pattern, first)
    assert ("run the same command again" in first) is (silent > 0)
    assert lock.exists()


def test_inspect_a_set(cli: Cli, tiny: Made) -> None:
    result = cli("inspect", tiny.out)
    assert result.code == 0
    assert result.out.startswith(f"{tiny.out}: imagenet, tfrecord, seed 0\n")
    assert "train: 24 records of 24 images" in result.out
    assert "6 shards of 4 records" in result.out
    assert "0 rejected, 0 repaired, 0 warned" in result.out


def test_inspect_shows_what_the_file_holds(cli: Cli, tmp_path: Path) -> None:
    for name in ("a", "b", "empty"):
        (tmp_path / "raw/train" / name).mkdir(parents=True)
    for number, mode in enumerate(("RGB", "L")):
        Image.new(mode, (16, 16)).save(tmp_path / "raw/train" / "ab"[number] / "0.jpg")
    words = ("folder", "--raw", tmp_path / "raw")
    assert cli(*words, "--out", tmp_path / "out").code == 0
    whole = cli("inspect", tmp_path / "out").out
    assert "  3 classes (1 without images), 0 rejected" in whole
    contents = json.loads(cli("inspect", tmp_path / "out", "--json").out)
    assert contents["classes"] == [["a", "a"], ["b", "b"], ["empty", "empty"]]
    assert contents["splits"]["train"]["class_records"] == {"0": 1, "1": 1}
    (shard,) = (tmp_path / "out" / "train").iterdir()
    lines = sorted(line[3:] for line in cli("inspect", shard).out.splitlines())
    assert lines[0].startswith("a/0.jpg  class 0 (0-based) a  16x16 RGB JPEG ")
    assert lines[1].startswith("b/0.jpg  class 1 (0-based) b  16x16 Grayscale JPEG ")


def test_inspect_a_damaged_shard_is_a_one_line_error(cli: Cli, tiny: Made, tmp_path: Path) -> None:
    content = bytearray((tiny.out / "train" / "train-00000-of-00006").read_bytes())
    content[40] ^= 1
    (tmp_path / "shard").write_bytes(content)
    result = cli("inspect", tmp_path / "shard", "--sink", "tfrecord")
    assert result.code == 1
    assert str(tmp_path / "shard") in result.error
