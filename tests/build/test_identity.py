"""A directory belongs to one job: the same input and options, or a refusal that says why."""

from __future__ import annotations

from pathlib import Path

import pytest

from dataprep.build.claim import check_identity, store_identity
from dataprep.build.workspace import Workspace
from dataprep.errors import DatasetError

IDENTITY = {
    "seed": 0,
    "num_shards": {"train": 4},
    "input": {"train": {"images": 3, "bytes": 30, "sha256": "aa"}},
    "limit": None,
}
UNITS = {"train-a": "1", "train-b": "2"}


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    found = Workspace(tmp_path)
    found.make()
    assert check_identity(found, IDENTITY, UNITS)
    store_identity(found, IDENTITY, UNITS)
    (found.commits / "train-00000-of-00004.json").write_text("{}")  # something is finished
    return found


def test_the_same_job_is_accepted(workspace: Workspace) -> None:
    assert not check_identity(workspace, dict(reversed(IDENTITY.items())), UNITS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 3}, "is being made with --seed 0, now 3; use"),
        ({"num_shards": {"train": 8}}, "--num_shards train=4, now 8"),
        ({"num_shards": {}}, "--num_shards train=4, now none"),
        ({"limit": 5}, "--limit none, now 5"),
    ],
)
def test_what_differs_is_said(
    workspace: Workspace, change: dict[str, object], message: str
) -> None:
    with pytest.raises(DatasetError, match=message) as caught:
        check_identity(workspace, {**IDENTITY, **change}, UNITS)
    assert "--overwrite" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_changed_raw_data_is_named(workspace: Workspace) -> None:
    changed = {**IDENTITY, "input": {"train": {"images": 3, "bytes": 31, "sha256": "bb"}}}
    with pytest.raises(DatasetError, match="the raw data of train-b changed") as caught:
        check_identity(workspace, changed, {**UNITS, "train-b": "3"})
    assert "sha256" not in str(caught.value)


def test_a_torn_job_file_is_named(workspace: Workspace) -> None:
    workspace.job.write_text("{")
    with pytest.raises(DatasetError, match="is damaged; use --overwrite"):
        check_identity(workspace, IDENTITY, UNITS)


def test_another_job_may_take_over_where_nothing_was_finished(workspace: Workspace) -> None:
    (workspace.commits / "train-00000-of-00004.json").unlink()
    assert check_identity(workspace, {**IDENTITY, "seed": 9}, UNITS)
