"""Every format on the command line: what it says of itself, verifies, and refuses."""

from __future__ import annotations

import json
import random
import re
import shutil
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import dataprep
from dataprep.plugins import SINKS, installed, load_sink
from dataprep.sealed.set import SealedSet
from tests.conftest import FORMATS, PIXELS, UNSIZED, Cli, Made, Raw, Shelf, hashes, leftovers

# --- dataprep sinks ---


def test_sinks_lists_every_format_with_its_options(cli: Cli) -> None:
    result = cli("sinks")
    assert result.code == 0
    lines = result.out.splitlines()
    names = [line.split(":")[0] for line in lines if not line.startswith(" ")]
    assert names == sorted(installed(SINKS))
    assert {options[1] for options in FORMATS.values()} <= set(names)
    assert max(map(len, lines)) <= 80
    whole = re.sub(r"\n {4,}", " ", result.out).splitlines()  # what was too long is continued
    for name in names:
        assert f"{name}: {load_sink(name).summary}" in whole
        assert load_sink(name).summary
        assert f"  verify --level reader: {load_sink(name).reference}" in whole
    assert "  files: train.rec, train.idx, train.lst" in lines
    assert "  files: train/train-00000-of-00064.h5" in lines
    assert "  --sink_option datum=encoded|raw [default: encoded]" in lines
    assert "Traceback" not in result.err


# --- options that do not fit ---

_SIZE = ("--resize", "16x16")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--sink", "lmdb", "--sink_option", "datum"), "expected NAME=VALUE"),
        (
            ("--sink", "lmdb", "--sink_option", "colour=red"),
            "has no option 'colour'; it has: datum",
        ),
        (("--sink", "lmdb", *("--sink_option", "datum=raw") * 2), "each name once"),
        (("--sink", "hdf5", "--sink_option", "datum=raw"), "has no option 'datum'; it has: none"),
        (
            ("--sink", "lmdb", "--sink_option", "datum=raw"),
            "--resize WIDTHxHEIGHT or --center_crop SIDE",
        ),
        (("--sink", "hdf5-arrays"), "hdf5-arrays of pixels needs images of one size"),
        (
            ("--sink", "hdf5-arrays", *_SIZE, "--encoding", "png"),
            "--encoding png: sink hdf5-arrays",
        ),
        (("--encoding", "raw"), "--encoding raw: sink tfrecord stores encoded images"),
        (("--depth", "keep", "--encoding", "jpeg"), "--depth keep"),
        (("--sink", "lmdb", "--build_dir", "none"), "--build_dir"),
        (("--sink", "recordio", "--num_shards", "25"), "train has 24 images"),
    ],
)
def test_options_that_do_not_fit_are_wrong_usage(
    cli: Cli, tiny: Made, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    result = cli(*tiny.command(tmp_path / "out", *words))
    assert message in result.error, result.error
    assert result.code == 2
    assert hashes(tmp_path / "out") == {}
    assert leftovers(tmp_path) == []


def test_more_shards_than_asked_for_are_needed_where_one_is_full(
    cli: Cli, shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Caffe reads files of at most 2^31 - 1 values; here of ten images."""
    made = shelf("hdf5-caffe")
    monkeypatch.setattr("dataprep.formats.hdf5.sinks._INT_MAX", 16 * 16 * 3 * 10)
    result = cli(*made.command(tmp_path, "--num_shards", "train=2,validation=1"))
    assert result.code == 2
    assert "expected 3 to 24 (a shard of" in result.error
    assert cli(*made.command(tmp_path)).code == 0
    names = [name for name in hashes(tmp_path) if name.endswith(".h5")]
    assert len(names) == 4
    assert (tmp_path / "train.txt").read_text().count("\n") == 3


# --- verify ---


@pytest.mark.parametrize("name", FORMATS)
def test_a_flipped_byte_and_a_missing_file_are_found_and_named(
    cli: Cli, shelf: Shelf, tmp_path: Path, name: str
) -> None:
    made = shelf(name)
    out = made.copy(tmp_path / "out")
    good = cli("verify", out, "--level", "decode", "--workers", 1)
    assert good.code == 0, good
    assert good.out.endswith("30 records: all good (decode)\n")
    chance = random.Random(name)
    flipped, missing = chance.sample(sorted(made.files.keys() - {"manifest.json"}), 2)
    damaged = bytearray((out / flipped).read_bytes())
    damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
    (out / flipped).write_bytes(damaged)
    (out / missing).unlink()
    result = cli("verify", out, "--workers", 1)
    assert result.code == 1
    assert {line.split(": ")[1] for line in result.out.splitlines()} == {flipped, missing}
    assert f"bad: {missing}: is missing" in cli("verify", out, "--level", "size").out


# --- inspect ---


@pytest.mark.parametrize("name", FORMATS)
def test_a_shard_is_shown_with_and_without_its_manifest(
    cli: Cli, shelf: Shelf, tmp_path: Path, name: str
) -> None:
    made = shelf(name)
    shard = made.out / SealedSet.read(made.out).splits["train"].shards[0].files[0].path
    shown = cli("inspect", shard, "--records", 3)
    assert shown.code == 0, shown
    lines = shown.out.splitlines()
    assert len(lines) == 3
    example = dataprep.open(made.out, "train")[0]
    kind = "RAW" if name in PIXELS else "JPEG"
    assert lines[0].startswith(f"0: {example.key}  class {example.class_index} ")
    assert example.synset in lines[0]
    assert f"16x16 RGB {kind}  {len(example.encoded):,} bytes" in lines[0]
    assert shown.err == ""
    if shard.name == "data.mdb":  # the directory that holds it is what people call the shard
        assert cli("inspect", shard.parent, "--records", 3).out == shown.out
    alone = tmp_path / shard.name
    shutil.copyfile(shard, alone)
    result = cli("inspect", alone, "--records", 3, "--sink", FORMATS[name][1])
    assert result.code == 0, result
    if name != "recordio":  # its keys are in the .lst beside it
        assert [line.split("  class ")[0] for line in result.out.splitlines()] == [
            line.split("  class ")[0] for line in lines
        ]
    assert f"class {example.class_index} " in result.out.splitlines()[0]
    assert f"16x16 RGB {kind}  {len(example.encoded):,} bytes" in result.out


def test_a_lone_hdf5_file_needs_a_format_and_must_be_ours(cli: Cli, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "train.h5", "w") as file:
        file["images"] = [1, 2, 3]
    assert "give it with --sink" in cli("inspect", tmp_path / "train.h5").error
    result = cli("inspect", tmp_path / "train.h5", "--sink", "hdf5")
    assert (result.code, str(tmp_path / "train.h5") in result.error) == (1, True)


# --- statistics ---


def of_split(out: Path, split: str) -> dict[str, Any]:
    manifest = json.loads((out / "manifest.json").read_bytes())
    found: dict[str, Any] = manifest["splits"][split]["statistics"]
    return found


@pytest.fixture(scope="module")
def measured(photos: Made, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The photographs as pixels; in several shards, to be added up."""
    out = tmp_path_factory.mktemp("measured")
    raw = Raw(photos.raw.path, (*UNSIZED["lmdb-raw"], "--resize", "24x18", "--stats"))
    result = Cli()(*raw.command(out, "--num_shards", 3, "--workers", 2))
    assert result.code == 0, result
    return out


def test_statistics_are_those_of_the_pixels_stored(measured: Path) -> None:
    for split in ("train", "validation"):
        pixels = np.stack(
            [
                np.frombuffer(it.encoded, np.uint8).reshape(it.height, it.width, 3)
                for it in dataprep.open(measured, split)
            ]
        )
        found = of_split(measured, split)
        assert found["images"] == len(pixels)
        assert found["pixels"] == pixels[..., 0].size
        assert found["formats"] == {"RAW": len(pixels)}
        assert found["width"] == {"min": 24, "mean": 24.0, "max": 24}
        assert found["height"] == {"min": 18, "mean": 18.0, "max": 18}
        channels = pixels.reshape(-1, 3).astype(np.float64)
        np.testing.assert_allclose(found["mean"], channels.mean(axis=0), atol=1e-6)
        np.testing.assert_allclose(found["std"], channels.std(axis=0), atol=1e-6)
