"""Commit records, temporary names, publishing: whole or not at all; and how far the others are."""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dataprep.errors import PipelineError
from dataprep.formats.recordio import RecordIOWriter
from dataprep.jobs.output import commit as module
from dataprep.jobs.output.commit import (
    ShardProgress,
    commit,
    forget_progress,
    images_under_way,
    publish,
    publish_once,
    read_records,
    temporary_files,
)
from dataprep.jobs.output.workspace import Workspace
from dataprep.jobs.running.status import read_status
from dataprep.system.state_files import hashed, write_state
from dataprep_pipelines.runners import RunningEngine
from dataprep_schemas.manifest import File
from dataprep_schemas.state import CommitRecord, RowsFile, ShardName
from tests.conftest import Cli, Shelf, everyday
from tests.forging import forge

ROWS = ".dataprep/commits/train-00001-of-00004.parquet"
RECORD = hashed(
    CommitRecord(
        shard=ShardName("train", 1, 4),
        files=(File("train/a", 3, "0" * 64), File("index/train/a", 2, "1" * 64)),
        rows=RowsFile(ROWS, 3, "2" * 64),
        records=2,
        rejected=1,
        noted=1,
    )
)


def test_a_record_comes_back(workspace: Workspace) -> None:
    commit(workspace, RECORD)
    assert read_records(workspace) == [RECORD]
    assert read_records(workspace, {str(RECORD.shard)}) == []
    assert not commit(workspace, replace(RECORD, records=3))  # of two, the first counts
    assert read_records(workspace) == [RECORD]


def test_a_record_of_another_shard_or_version_is_none(workspace: Workspace) -> None:
    write_state(workspace.commits / "train-00000-of-00004.json", RECORD)
    commit(workspace, RECORD)
    forge(workspace.record(RECORD.shard), lambda record: record.update(format="dataprep-commit-1"))
    assert read_records(workspace) == []


@given(data=st.data())
def test_a_record_with_any_byte_changed_is_none(data: st.DataObject) -> None:
    with TemporaryDirectory() as name:
        workspace = Workspace(Path(name))
        workspace.make()
        commit(workspace, RECORD)
        path = workspace.record(RECORD.shard)
        right = path.read_bytes()
        at = data.draw(st.integers(0, len(right) - 1))
        other = data.draw(st.integers(0, 255).filter(lambda byte: byte != right[at]))
        path.write_bytes(right[:at] + bytes([other]) + right[at + 1 :])
        assert read_records(workspace) == []
        path.write_bytes(right[:at])
        assert read_records(workspace) == []
        path.write_bytes(right)
        assert read_records(workspace) == [RECORD]


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt])
def test_nothing_is_left_of_a_failed_shard(tmp_path: Path, kind: type[BaseException]) -> None:
    finals = [tmp_path / "train" / "a", tmp_path / "index" / "a"]

    def fail() -> None:
        with temporary_files(finals) as temporaries:
            temporaries[0].write_bytes(b"half")
            raise kind

    with pytest.raises(kind):
        fail()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


# --- two workers that make one shard ---


def record_of(contents: dict[str, bytes]) -> CommitRecord:
    *files, rows = (
        (path, len(data), hashlib.sha256(data).hexdigest()) for path, data in contents.items()
    )
    made = tuple(File(*file) for file in files)
    return hashed(replace(RECORD, files=made, rows=RowsFile(*rows)))


OURS = {"train/a": b"abc", "index/train/a": b"de", ROWS: b"rows"}


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("there", ["all", "data", "index", "rows", "short", "none"])
@pytest.mark.parametrize("differs", [None, *OURS])
def test_a_shard_is_published_once(
    workspace: Workspace, recorded: bool, there: str, differs: str | None
) -> None:
    """Whatever another worker left of it: a record, files, the same bytes or others."""
    finals = [workspace.out / path for path in OURS]
    theirs = {path: b"!" * len(data) if path == differs else data for path, data in OURS.items()}
    one = {"data": finals[:1], "index": finals[1:2], "rows": finals[2:], "none": []}
    present = {"all": finals, "short": finals, **one}
    for final, data in zip(finals, theirs.values(), strict=True):
        final.parent.mkdir(parents=True, exist_ok=True)
        if final in present[there]:
            final.write_bytes(data[:-1] if there == "short" else data)
    if recorded:
        commit(workspace, record_of(theirs))
    before = {final: final.stat().st_ino for final in finals if final.exists()}
    whole = recorded and there == "all"

    def publish_ours() -> None:
        with temporary_files(finals) as temporaries:
            for temporary, data in zip(temporaries, OURS.values(), strict=True):
                temporary.write_bytes(data)
            publish_once(workspace, record_of(OURS), temporaries, finals)

    if whole and differs:
        with pytest.raises(PipelineError, match=f"{differs}: two workers made different bytes"):
            publish_ours()
        assert [final.read_bytes() for final in finals] == list(theirs.values())
        assert read_records(workspace) == []  # no other run trusts it
    else:
        publish_ours()
        assert [final.read_bytes() for final in finals] == list(OURS.values())
        assert read_records(workspace) == [record_of(OURS)]
    # What readers may have open is not exchanged.
    assert ({final: final.stat().st_ino for final in finals} == before) is whole
    left = [path for path in workspace.out.rglob("*") if path.name.endswith(".partial")]
    assert left == []


def test_other_bytes_that_are_recorded_meanwhile_are_refused(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two workers that both saw no record: the second finds the first's when it records."""
    finals = [workspace.out / path for path in OURS]
    theirs = record_of({path: b"!" * len(data) for path, data in OURS.items()})

    def other_worker_first(temporaries: Sequence[Path], finals: Sequence[Path]) -> None:
        publish(temporaries, finals)
        assert commit(workspace, theirs)

    monkeypatch.setattr("dataprep.jobs.output.commit.publish", other_worker_first)
    with temporary_files(finals) as temporaries:
        for temporary, data in zip(temporaries, OURS.values(), strict=True):
            temporary.write_bytes(data)
        with pytest.raises(PipelineError, match="two workers made different bytes"):
            publish_once(workspace, record_of(OURS), temporaries, finals)
    assert read_records(workspace) == []


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP])
def test_a_file_system_without_hard_links_takes_records_too(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, "no hard links here")

    monkeypatch.setattr("os.link", refuse)
    assert commit(workspace, RECORD)
    assert read_records(workspace) == [RECORD]
    assert [path.name for path in workspace.commits.iterdir()] == [f"{RECORD.shard}.json"]


# --- how far a large shard is, before it is committed; by a clock that the test turns ---

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
    monkeypatch.setattr(module, "time", clock)
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


@pytest.mark.parametrize("command", everyday(["imagenet"], ["convert"]))
def test_a_single_large_shard_is_seen_before_it_is_committed(
    cli: Cli,
    shelf: Shelf,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
) -> None:
    """Looked at right before the only shard is closed."""
    made = shelf("recordio")
    source = shelf("tfrecord").out
    monkeypatch.setattr(module, "_NOTE_SECONDS", 0.0)
    monkeypatch.setattr(RunningEngine, "look_seconds", 0.0)
    seen: list[int] = []
    statuses: list[str] = []
    close = RecordIOWriter.close

    def looking(writer: RecordIOWriter) -> object:
        seen.append(images_under_way(Workspace(tmp_path / "out")))
        statuses.append(repr(read_status(tmp_path / "out")))
        return close(writer)

    monkeypatch.setattr(RecordIOWriter, "close", looking)
    words: dict[str, Sequence[object]] = {
        "imagenet": made.command(tmp_path / "out", "--splits", "train"),
        "convert": ["convert", source, "--to", tmp_path / "out", "--sink", "recordio"],
    }
    result = cli(*words[command], "--workers", 1)
    assert result.code == 0, result
    assert 24 in seen
    assert any("under_way=24" in text for text in statuses), statuses
    assert images_under_way(Workspace(tmp_path / "out")) == 0
