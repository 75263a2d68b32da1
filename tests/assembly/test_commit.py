"""Commit records, temporary names and publishing: whole or not at all."""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from dataprep.assembly.commit import (
    CommitRecord,
    Commits,
    CommittedFile,
    Noted,
    Rejected,
    commit,
    is_intact,
    publish,
    publish_once,
    temporary_files,
)
from dataprep.assembly.sweeping import remove_partial_files
from dataprep.assembly.workspace import Workspace
from dataprep.durable_files import partial_path, write_durably
from dataprep.errors import DatasetError, PipelineError

RECORD = CommitRecord(
    split="train",
    number=1,
    count=4,
    files=(CommittedFile("train/a", 3, "00"), CommittedFile("index/train/a", 2, "11")),
    records=2,
    classes={3: 1, 999: 1},
    rejected=(Rejected("k", "x.tar", 512, 9, "truncated"),),
    noted=(Noted("l", "repaired", "a PNG"),),
)


def test_a_record_comes_back(workspace: Workspace) -> None:
    commit(workspace, RECORD)
    assert Commits(workspace).all() == [RECORD]
    assert RECORD.total_bytes == 5


def test_refresh_tells_only_what_is_new(workspace: Workspace) -> None:
    commits = Commits(workspace)
    assert commits.refresh() == []
    commit(workspace, RECORD)
    assert commits.refresh() == [RECORD]
    assert commits.refresh() == []


def test_a_torn_record_is_named_with_the_way_out(workspace: Workspace) -> None:
    path = workspace.commits / "train-00000-of-00004.json"
    path.write_text('{"split": "train"}')
    with pytest.raises(DatasetError, match="delete it and run again"):
        Commits(workspace).all()


@pytest.mark.parametrize(("content", "intact"), [(b"abc", True), (b"ab", False), (None, False)])
def test_a_shard_is_intact_only_with_its_files(
    tmp_path: Path, content: bytes | None, intact: bool
) -> None:
    if content is not None:
        (tmp_path / "file").write_bytes(content)
    record = CommitRecord("s", 0, 1, (CommittedFile("file", 3, ""),), 1, {})
    assert is_intact(record, tmp_path) is intact


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


@pytest.mark.parametrize("data_exists", [False, True])
@pytest.mark.parametrize("index_exists", [False, True])
def test_publishing_again_is_harmless(
    tmp_path: Path, data_exists: bool, index_exists: bool
) -> None:
    finals = [tmp_path / "a", tmp_path / "b"]
    for final, exists in zip(finals, (data_exists, index_exists), strict=True):
        if exists:
            final.write_bytes(b"from a killed run")
    with temporary_files(finals) as temporaries:
        for path in temporaries:
            path.write_bytes(b"new")
        publish(temporaries, finals)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]
    assert finals[0].read_bytes() == finals[1].read_bytes() == b"new"


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


def test_temporary_names_match_no_reader_s_glob(tmp_path: Path) -> None:
    temporary = partial_path(tmp_path / "train-00000-of-00004")
    temporary.write_bytes(b"")
    assert list(tmp_path.glob("train-*")) == []


def test_a_failed_durable_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "manifest.json"
    write_durably(path, b"old")

    def refuse(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", refuse)
    with pytest.raises(OSError, match="No space"):
        write_durably(path, b"new")
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["manifest.json"]


# --- two workers that make one shard ---


def record_of(contents: dict[str, bytes]) -> CommitRecord:
    files = tuple(
        CommittedFile(path, len(data), hashlib.sha256(data).hexdigest())
        for path, data in contents.items()
    )
    return replace(RECORD, files=files)


OURS = {"train/a": b"abc", "index/train/a": b"de"}


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("there", ["both", "data", "index", "short", "none"])
@pytest.mark.parametrize("differs", [None, "train/a", "index/train/a"])
def test_a_shard_is_published_once(
    workspace: Workspace, recorded: bool, there: str, differs: str | None
) -> None:
    """Whatever another worker left of it: a record, files, the same bytes or others."""
    finals = [workspace.out / path for path in OURS]
    theirs = {path: b"!" * len(data) if path == differs else data for path, data in OURS.items()}
    present = {"both": finals, "short": finals, "data": finals[:1], "index": finals[1:], "none": []}
    for final, data in zip(finals, theirs.values(), strict=True):
        final.parent.mkdir(parents=True)
        if final in present[there]:
            final.write_bytes(data[:-1] if there == "short" else data)
    if recorded:
        commit(workspace, record_of(theirs))
    before = {final: final.stat().st_ino for final in finals if final.exists()}
    whole = recorded and there == "both"

    def publish_ours() -> None:
        with temporary_files(finals) as temporaries:
            for temporary, data in zip(temporaries, OURS.values(), strict=True):
                temporary.write_bytes(data)
            publish_once(workspace, record_of(OURS), temporaries, finals)

    if whole and differs:
        with pytest.raises(PipelineError, match=f"{differs}: two workers made different bytes"):
            publish_ours()
        assert [final.read_bytes() for final in finals] == list(theirs.values())
        assert Commits(workspace).all() == []  # no other run trusts it
    else:
        publish_ours()
        assert [final.read_bytes() for final in finals] == list(OURS.values())
        assert Commits(workspace).all() == [record_of(OURS)]
    # What readers may have open is not exchanged.
    assert ({final: final.stat().st_ino for final in finals} == before) is whole
    left = [path for path in workspace.out.rglob("*") if path.name.endswith(".partial")]
    assert left == []


def test_of_two_records_at_the_same_moment_the_first_counts(workspace: Workspace) -> None:
    other = replace(RECORD, records=3)
    assert commit(workspace, RECORD)
    assert not commit(workspace, other)
    assert Commits(workspace).all() == [RECORD]
    assert [path.name for path in workspace.commits.iterdir()] == [f"{RECORD.shard}.json"]


def test_other_bytes_that_are_recorded_meanwhile_are_refused(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two workers that both saw no record: the second finds the first's when it records."""
    finals = [workspace.out / path for path in OURS]
    theirs = record_of({path: b"!" * len(data) for path, data in OURS.items()})

    def other_worker_first(temporaries: Sequence[Path], finals: Sequence[Path]) -> None:
        publish(temporaries, finals)
        assert commit(workspace, theirs)

    monkeypatch.setattr("dataprep.assembly.commit.publish", other_worker_first)
    with temporary_files(finals) as temporaries:
        for temporary, data in zip(temporaries, OURS.values(), strict=True):
            temporary.write_bytes(data)
        with pytest.raises(PipelineError, match="two workers made different bytes"):
            publish_once(workspace, record_of(OURS), temporaries, finals)
    assert Commits(workspace).all() == []


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP])
def test_a_file_system_without_hard_links_takes_records_too(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, "no hard links here")

    monkeypatch.setattr("os.link", refuse)
    assert commit(workspace, RECORD)
    assert Commits(workspace).all() == [RECORD]
    assert [path.name for path in workspace.commits.iterdir()] == [f"{RECORD.shard}.json"]
