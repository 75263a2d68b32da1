"""How far a large shard is, before it is committed; by a clock that the test turns."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from dataprep.jobs import commit
from dataprep.jobs.commit import ShardProgress, forget_progress, images_under_way
from dataprep.jobs.status import read_status
from dataprep.jobs.workspace import Workspace
from dataprep.sinks import ShardName
from dataprep.sinks.recordio import RecordIOWriter
from dataprep_pipelines.runners import RunningEngine
from tests.conftest import Cli, Made, Shelf

SHARD = ShardName("train", 0, 1)


@dataclass
class Clock:
    """A clock that stands still unless it is turned."""

    now: float = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(commit, "time", clock)
    return clock


def test_it_is_noted_now_and_then(workspace: Workspace, clock: Clock) -> None:
    often, rarely = (ShardProgress(workspace, SHARD, seconds) for seconds in (0.0, 60.0))
    for seconds, noted in ((1.9, 0), (0.1, 2), (1.9, 2), (0.1, 4)):
        clock.now += seconds
        often.advance()
        assert images_under_way(workspace) == noted
    often.finish()
    often.finish()
    for seconds, noted in ((55.9, 0), (0.1, 2), (59.9, 2), (0.1, 4)):  # of many workers
        clock.now += seconds
        rarely.advance()
        assert images_under_way(workspace) == noted


def test_shards_are_added_up_and_nonsense_is_passed_over(
    workspace: Workspace, clock: Clock
) -> None:
    shards = [ShardProgress(workspace, ShardName("train", number, 3), 0.0) for number in range(3)]
    clock.now += 5
    for shard in shards:
        shard.advance()
    (workspace.progress / "torn").write_text("")
    (workspace.progress / "nonsense").write_text("many")
    assert images_under_way(workspace) == 3
    shards[0].finish()
    assert images_under_way(workspace) == 2
    forget_progress(workspace)
    assert list(workspace.progress.iterdir()) == []
    workspace.progress.rmdir()
    clock.now += 5
    shards[0].advance()  # cannot be written, which stops nothing
    assert images_under_way(workspace) == 0


@pytest.mark.parametrize("command", ["imagenet", "convert"])
def test_a_single_large_shard_is_seen_before_it_is_committed(
    cli: Cli,
    shelf: Shelf,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
) -> None:
    """Looked at right before the only shard is closed."""
    made: Made = shelf("recordio")
    source = shelf("tfrecord").out
    monkeypatch.setattr(commit, "_NOTE_SECONDS", 0.0)
    monkeypatch.setattr(RunningEngine, "look_seconds", 0.0)
    seen: list[int] = []
    statuses: list[str] = []
    close = RecordIOWriter.close

    def looking(writer: RecordIOWriter) -> object:
        seen.append(images_under_way(Workspace(tmp_path / "out")))
        statuses.append(repr(read_status(tmp_path / "out")))
        return close(writer)

    monkeypatch.setattr(RecordIOWriter, "close", looking)
    words = {
        "imagenet": made.command(tmp_path / "out", "--splits", "train"),
        "convert": ["convert", source, "--to", tmp_path / "out", "--sink", "recordio"],
    }
    result = cli(*words[command], "--workers", 1)
    assert result.code == 0, result
    assert 24 in seen
    assert any("under_way=24" in text for text in statuses), statuses
    assert images_under_way(Workspace(tmp_path / "out")) == 0
