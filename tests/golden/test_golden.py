"""Sets that earlier versions made open, verify, convert and stage; ``python -m tests.golden``."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import dataprep
from tests.conftest import FORMATS, PIXELS, Cli
from tests.golden.__main__ import PLACE


@pytest.fixture(params=[*FORMATS, "webdataset-energon"])  # which earlier versions made
def golden(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy, since LMDB's own reader leaves a lock file beside its data."""
    return Path(shutil.copytree(PLACE / request.param, tmp_path / request.param))


def test_it_opens(golden: Path) -> None:
    for split, number in (("train", 4), ("validation", 2)):
        with dataprep.open(golden, split) as records:
            examples = list(records)
            assert len({example.key for example in examples}) == number
            assert [records[at].key for at in range(number)] == [each.key for each in examples]
            assert [int(label) for label in records.labels] == [
                example.class_index for example in examples
            ]
            assert {example.array().shape for example in examples} == {(16, 16, 3)}


def test_it_verifies_converts_and_stages(cli: Cli, golden: Path, tmp_path: Path) -> None:
    assert cli("verify", golden, "--level", "decode").code == 0
    assert cli("inspect", golden).code == 0
    sink = "hdf5-arrays" if golden.name in PIXELS else "recordio"
    to = ("--to", tmp_path / "converted", "--sink", sink)
    result = cli("convert", golden, *to)
    assert result.code == 0, result
    assert cli("diff", golden, tmp_path / "converted").code == 0
    result = cli("stage", golden, "--to", tmp_path / "staged")
    assert result.code == 0, result
    assert cli("verify", tmp_path / "staged", "--level", "records").code == 0
