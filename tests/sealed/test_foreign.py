"""Files in an output directory that are not the data set's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from dataprep.sealed.set import foreign_files


def touch(out: Path, *names: str) -> list[Path]:
    for name in names:
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).touch()
    return [out / name for name in names]


@pytest.mark.parametrize(
    ("own", "foreign"),
    [
        (["train/train-00000-of-00002"], ["train/train-00001-of-00003"]),
        (
            ["train/train-00000-of-00001.tar", "index/train/train-00000-of-00001.idx"],
            ["index/train/train-00007-of-00009.idx", "train/train-00000-of-00001.rec"],
        ),
        (
            ["train/train-00000-of-00002_lmdb/data.mdb"],
            ["train/train-00002-of-00003_lmdb"],
        ),
        (["train.h5", "train.txt"], ["train-00000-of-00002.h5"]),
    ],
)
def test_a_foreign_file_is_named(tmp_path: Path, own: list[str], foreign: list[str]) -> None:
    touch(tmp_path, *own)
    assert list(foreign_files(tmp_path, ["train"], own)) == []
    touch(tmp_path, *(path.replace("_lmdb", "_lmdb/data.mdb") for path in foreign))
    assert sorted(foreign_files(tmp_path, ["train"], own)) == sorted(foreign)


def test_what_no_reader_would_take_is_let_be(tmp_path: Path) -> None:
    own = ["train/train-00000-of-00002"]
    touch(tmp_path, *own)
    touch(tmp_path, "train/README", "train/.train-00000-of-00002.0a1b2c3d.partial")
    touch(tmp_path, "elsewhere/train-00000-of-00009", "train/validation-00000-of-00001")
    assert list(foreign_files(tmp_path, ["train"], own)) == []
    assert list(foreign_files(tmp_path, ["train", "validation"], own)) == [
        "train/validation-00000-of-00001"
    ]


def test_what_begins_or_ends_like_a_shard_is_named(tmp_path: Path) -> None:
    own = ["train/train-00000-of-00001.tar"]
    touch(tmp_path, *own)
    touch(tmp_path, "train/extra.tar", "train/.hidden.tar", "train/notes.txt", "extra.tar")
    touch(tmp_path, "train/train-old")
    assert list(foreign_files(tmp_path, ["train"], own)) == ["train/extra.tar", "train/train-old"]
