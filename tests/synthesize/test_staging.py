"""Nothing that looks complete is left by a failure, and nothing foreign is replaced."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from dataprep.errors import DatasetError
from dataprep.synthesize.imagenet.dataset import synthesize_imagenet
from dataprep.synthesize.imagenet.layouts import Layout
from dataprep.synthesize.staging import staged

TINY = {"classes": 1, "images_per_class": 2, "validation_images": 1}


class StopHere(BaseException):
    """Stands for Ctrl-C."""


def stop_after(count: int, error: BaseException) -> object:
    calls = iter(range(count))

    def progress(_: int) -> None:
        if next(calls, None) is None:
            raise error

    return progress


def contents(directory: Path) -> dict[str, bytes]:
    files = [path for path in directory.rglob("*") if path.is_file()]
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


@pytest.mark.parametrize("layout", ["tar", "tree"])
@pytest.mark.parametrize("done", [0, 1, 2])
def test_an_interrupted_run_leaves_nothing(tmp_path: Path, layout: Layout, done: int) -> None:
    with pytest.raises(StopHere):
        synthesize_imagenet(
            tmp_path / "raw", layout=layout, progress=stop_after(done, StopHere()), **TINY
        )
    assert list(tmp_path.iterdir()) == []


def test_final_names_appear_only_at_the_end(tmp_path: Path) -> None:
    seen: set[str] = set()
    synthesize_imagenet(
        tmp_path, progress=lambda _: seen.update(path.name for path in tmp_path.iterdir()), **TINY
    )
    assert seen == {".synthesize.partial"}
    assert not (tmp_path / ".synthesize.partial").exists()


def test_a_full_disk_is_one_clear_line_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_bytes(path: Path, _: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr(Path, "write_bytes", write_bytes)
    with pytest.raises(DatasetError, match=r"No space left on device.*room enough") as caught:
        synthesize_imagenet(tmp_path / "raw", layout="tree", **TINY)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_the_way_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "raw").write_text("mine")
    with pytest.raises(DatasetError, match="cannot write to"):
        synthesize_imagenet(tmp_path / "raw", **TINY)
    assert (tmp_path / "raw").read_text() == "mine"


def test_a_directory_in_use_is_refused_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(DatasetError, match=r"holds notes\.txt; .* --overwrite"):
        synthesize_imagenet(tmp_path, **TINY)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_overwrite_replaces_its_own_and_keeps_the_rest(tmp_path: Path) -> None:
    synthesize_imagenet(tmp_path, layout="tree", **TINY)
    (tmp_path / "notes.txt").write_text("mine")
    synthesize_imagenet(tmp_path, layout="tar", overwrite=True, **TINY)
    assert {path.name for path in tmp_path.iterdir()} == {
        ".dataprep_synthesize",
        "ILSVRC2012_img_train.tar",
        "ILSVRC2012_img_val.tar",
        "notes.txt",
    }


@pytest.mark.parametrize("name", ["train", "ILSVRC2012_img_train.tar"])
def test_overwrite_never_touches_somebodys_real_data(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "precious").write_text("140 GB")
    with pytest.raises(DatasetError, match="not written by synthesize"):
        synthesize_imagenet(tmp_path, overwrite=True, **TINY)
    assert (tmp_path / name / "precious").read_text() == "140 GB"
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_overwrite_keeps_real_data_that_came_later(tmp_path: Path) -> None:
    synthesize_imagenet(tmp_path, layout="tree", **TINY)
    (tmp_path / "ILSVRC2012_img_train.tar").write_text("140 GB")
    with pytest.raises(DatasetError, match="not written by synthesize"):
        synthesize_imagenet(tmp_path, layout="tree", overwrite=True, **TINY)
    assert (tmp_path / "ILSVRC2012_img_train.tar").read_text() == "140 GB"


def test_overwrite_replaces_another_made_up_data_set(tmp_path: Path) -> None:
    synthesize_imagenet(tmp_path, **TINY)
    with staged(tmp_path, ["other"], "other".__eq__, overwrite=True) as staging:
        (staging / "other").write_text("new")
    assert {path.name for path in tmp_path.iterdir()} == {".dataprep_synthesize", "other"}
    marker = (tmp_path / ".dataprep_synthesize").read_text()
    assert [line for line in marker.splitlines() if not line.startswith("#")] == ["other"]


def test_a_failed_overwrite_keeps_the_old_set(tmp_path: Path) -> None:
    synthesize_imagenet(tmp_path, **TINY)
    before = contents(tmp_path)
    with pytest.raises(StopHere):
        synthesize_imagenet(
            tmp_path, seed=1, overwrite=True, progress=stop_after(1, StopHere()), **TINY
        )
    assert contents(tmp_path) == before


def test_what_a_killed_run_left_is_named_and_overwritten(tmp_path: Path) -> None:
    (tmp_path / ".synthesize.partial").mkdir()
    with pytest.raises(DatasetError, match=r"\.synthesize\.partial"):
        synthesize_imagenet(tmp_path, **TINY)
    synthesize_imagenet(tmp_path, overwrite=True, **TINY)
    assert (tmp_path / "ILSVRC2012_img_train.tar").exists()
