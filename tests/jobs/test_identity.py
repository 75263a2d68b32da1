"""A directory belongs to one job: the same input and options, or a refusal that says why."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from dataprep.errors import DatasetError
from dataprep.formats import DatasetInfo
from dataprep.images import Recipe
from dataprep.jobs.output.workspace import Workspace
from dataprep.jobs.running.identity import check_identity
from dataprep.sealed.set import examples_of
from dataprep.system.state_files import write_state
from dataprep_schemas.manifest import Identity, Input, SinkConfig, Unmatched
from dataprep_schemas.state import StoredJob
from tests.conftest import Cli
from tests.images.dicom_files import dataset, file
from tests.images.files import PHOTO, encoded

IDENTITY = Identity(
    dataset="folder",
    dataset_config={},
    seed=0,
    shuffle={"train": "stratified"},
    image=Recipe().config(),
    classes_sha256="0" * 64,
    unmatched=Unmatched(0, 0, {}),
    counts={},
    input={"train": Input(3, 30, "a" * 32)},
    num_shards={"train": 4},
    sink=SinkConfig("tfrecord", {}),
    examples=examples_of(DatasetInfo()),
    layout="split",
    versions={},
)
UNITS = {"train-a": "1", "train-b": "2"}


@pytest.fixture
def begun(workspace: Workspace) -> Workspace:
    """Something is finished here."""
    assert check_identity(workspace, IDENTITY, UNITS)
    write_state(workspace.job, StoredJob(IDENTITY, UNITS))
    (workspace.commits / "train-00000-of-00004.json").write_text("{}")
    return workspace


def test_the_same_job_is_accepted(begun: Workspace) -> None:
    assert not check_identity(begun, replace(IDENTITY), dict(reversed(UNITS.items())))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 3}, "is being made with --seed 0, now 3; use"),
        ({"num_shards": {"train": 8}}, "--num_shards train=4, now 8"),
        ({"sink": SinkConfig("lmdb", {})}, "--sink tfrecord, now lmdb"),
        ({"limit": 5}, "--limit none, now 5"),
        ({"shuffle": {"train": "none"}}, "--shuffle train=stratified, now none"),
        ({"layout": "flat"}, "--layout split, now flat"),
    ],
)
def test_what_differs_is_said(begun: Workspace, change: dict[str, Any], message: str) -> None:
    with pytest.raises(DatasetError, match=message) as caught:
        check_identity(begun, replace(IDENTITY, **change), UNITS)
    assert "--overwrite" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_other_versions_are_no_resuming(begun: Workspace) -> None:
    earlier = replace(IDENTITY, versions={"dataprep": "0.1.0", "lmdb": "1.7"})
    write_state(begun.job, StoredJob(earlier, UNITS))
    later = replace(IDENTITY, versions={"dataprep": "0.2.0", "lmdb": "1.7"})
    with pytest.raises(
        DatasetError,
        match=r"is being made with dataprep 0\.1\.0, now 0\.2\.0; .*"
        "install those again to finish it, use another output directory, or --over",
    ):
        check_identity(begun, later, UNITS)
    begun.manifest.write_text("{}")
    with pytest.raises(
        DatasetError, match=r"was made with dataprep 0\.1\.0, now .*: use it as it is,"
    ):
        check_identity(begun, later, UNITS)
    with pytest.raises(DatasetError, match="use the same input and options"):
        check_identity(begun, replace(later, seed=1), UNITS)


def test_changed_raw_data_is_named(begun: Workspace) -> None:
    changed = replace(IDENTITY, input={"train": Input(3, 31, "b" * 32)})
    with pytest.raises(DatasetError, match="the raw data of train-b changed") as caught:
        check_identity(begun, changed, {**UNITS, "train-b": "3"})
    assert "bbb" not in str(caught.value)


def test_a_sealed_set_may_grow(begun: Workspace) -> None:
    begun.manifest.write_text("{}")
    with pytest.raises(DatasetError, match=r"use .* --append if images are only new, another"):
        check_identity(begun, IDENTITY, {**UNITS, "train-c": "3"})


def test_a_torn_job_file_is_named(begun: Workspace) -> None:
    begun.job.write_text("{")
    with pytest.raises(DatasetError, match="run the same command with --overwrite"):
        check_identity(begun, IDENTITY, UNITS)


def test_another_job_may_take_over_where_nothing_was_finished(begun: Workspace) -> None:
    (begun.commits / "train-00000-of-00004.json").unlink()
    assert check_identity(begun, replace(IDENTITY, seed=9), UNITS)


@pytest.mark.parametrize("dicom", [False, True])
def test_extras_that_no_finished_shard_needed_do_not_stop_a_run(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, *, dicom: bool
) -> None:
    for number in range(6):
        place = tmp_path / f"raw/a/{number}.jpg"  # whatever it is called, content decides
        place.parent.mkdir(parents=True, exist_ok=True)
        pixels = np.full((8, 8), number, np.uint8)
        place.write_bytes(file(dataset(pixels)) if dicom and not number else encoded(PHOTO))
    out = tmp_path / "out"
    words = ("folder", "--raw", tmp_path / "raw", "--out", out, "--workers", 1, "--num_shards", 3)
    assert cli(*words).code == 0
    whole = {path.name: path.read_bytes() for path in (out / "train").iterdir()}
    sealed = (out / "manifest.json").read_bytes()
    extras = {
        path: json.loads(path.read_bytes()).get("extras", [])
        for path in Workspace(out).commits.glob("*.json")
    }
    assert sorted(extras.values()) == [[], [], ["imagecodecs", "pydicom"] if dicom else []]

    module = sys.modules["dataprep.images.prepare"]  # which a function of that name hides
    known: Any = vars(module)["version"]
    monkeypatch.setattr(module, "version", lambda it: "9" if it == "pydicom" else known(it))
    done = cli(*words)  # it is finished, and stays what it is
    assert (done.code == 0) is not dicom, done
    assert (out / "manifest.json").read_bytes() == sealed

    (out / "manifest.json").unlink()
    gone = next(path for path, used in extras.items() if not used)
    gone.unlink()
    done = cli(*words)
    if dicom:
        assert "is being made with pydicom" in done.error
        return
    assert done.code == 0, done
    assert {path.name: path.read_bytes() for path in (out / "train").iterdir()} == whole
    assert json.loads((out / "manifest.json").read_bytes())["versions"]["pydicom"] == "9"
