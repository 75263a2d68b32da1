"""Images listed and not there, or there and not listed: what is asked for, and what is kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dataprep.synthesize.chestxray14.dataset import synthesize_chestxray14
from dataprep.synthesize.chestxray14.plan import plan_chestxray14
from tests.conftest import Cli, Made, Raw, make


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """13 images of 6 patients; one is missing, one unlisted, one truncated."""
    path = tmp_path_factory.mktemp("unmatched")
    plan = plan_chestxray14(patients=6, archives=2, defects=True)
    synthesize_chestxray14(path / "raw", plan, size=8, threads=1)
    split = ("--split", "random-by-patient", "--test_fraction", "0.4", "--validation_fraction", "0")
    options = (*split, "--num_shards", "1", "--workers", "1")
    return make(Raw(path / "raw", options, "chestxray14"), path / "out", "--max_bad", 3)


def test_a_converted_set_says_what_was_unmatched_but_has_no_list_of_it(
    cli: Cli, few: Made, tmp_path: Path
) -> None:
    assert "unmatched.tsv" in few.files
    new = tmp_path / "new"
    result = cli("convert", few.out, "--to", new, "--sink", "webdataset", "--workers", 1)
    assert result.code == 0, result
    before, after = (
        json.loads((out / "manifest.json").read_bytes())["unmatched"] for out in (few.out, new)
    )
    assert before["file"]["path"] == "unmatched.tsv"
    assert after == {**before, "file": None}
    assert not (new / "unmatched.tsv").exists()
    verified = cli("verify", new)
    assert verified.code == 0, verified


@pytest.mark.parametrize("split", ["train", "test"])
def test_an_unlisted_image_counts_whichever_split_is_wanted(
    cli: Cli, few: Made, tmp_path: Path, split: str
) -> None:
    result = cli(*few.command(tmp_path, "--splits", split))
    assert result.code == 3, result
    assert "1 image there but not listed: 00000006_999.png\n" in result.out
