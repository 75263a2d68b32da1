"""Images listed and not there, or there and not listed: what is asked for, and what is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from dataprep.synthesize.chestxray14 import synthesize_chestxray14
from tests.conftest import Cli, Made, Raw, make, rows_of


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """13 images of 6 patients; one is missing, one unlisted, one truncated."""
    path = tmp_path_factory.mktemp("unmatched")
    synthesize_chestxray14(path / "raw", patients=6, archives=2, size=8, defects=True)
    split = ("--split", "random-by-patient", "--test_fraction", "0.4", "--validation_fraction", "0")
    options = (*split, "--num_shards", "1", "--workers", "1")
    return make(Raw(path / "raw", options, "chestxray14"), path / "out", "--max_bad", 3)


def test_a_converted_set_has_the_rows_of_what_was_unmatched(
    cli: Cli, few: Made, tmp_path: Path
) -> None:
    assert rows_of(few.out, "unlisted")
    new = tmp_path / "new"
    result = cli("convert", few.out, "--to", new, "--sink", "webdataset", "--workers", 1)
    assert result.code == 0, result
    for statuses in (("missing", "unlisted"), ("rejected",)):
        rows = [{**row, "shard": None} for row in rows_of(few.out, *statuses)]
        assert rows_of(new, *statuses) == rows
    verified = cli("verify", new, "--level", "records")
    assert verified.code == 0, verified


@pytest.mark.parametrize("split", ["train", "test"])
def test_an_unlisted_image_counts_whichever_split_is_wanted(
    cli: Cli, few: Made, tmp_path: Path, split: str
) -> None:
    result = cli(*few.command(tmp_path, "--splits", split))
    assert result.code == 3, result
    (unlisted,) = rows_of(few.out, "unlisted")
    assert f"1 image there but not listed: {unlisted['key']}\n" in result.out
