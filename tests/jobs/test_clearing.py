"""What killed runs left behind is removed, and nobody else's files."""

from __future__ import annotations

from dataprep.jobs.output.workspace import Workspace
from dataprep.jobs.running.clearing import remove_partial_files
from dataprep.system.durable_files import partial_path


def test_partial_files_are_removed_and_nothing_else(workspace: Workspace) -> None:
    train = workspace.out / "train"
    train.mkdir()
    partial_path(train / "train-00000-of-00004").write_bytes(b"half")
    (train / ".hidden").write_bytes(b"a user's")
    (train / "train-00000-of-00004").write_bytes(b"whole")
    (train / ".download.partial").write_bytes(b"a user's too")
    remove_partial_files(workspace, ["train", "validation"])
    assert sorted(path.name for path in train.iterdir()) == [
        ".download.partial",
        ".hidden",
        "train-00000-of-00004",
    ]
