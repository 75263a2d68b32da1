"""A raw directory that is not the right one: what is said, and where else is looked."""

from __future__ import annotations

from pathlib import Path

import pytest

from dataprep.archives.raw_directory import likely, list_raw
from dataprep.errors import SourceError


def holds(directory: Path) -> bool:
    """Whether it has the file ``data``."""
    return (directory / "data").is_file()


def put(directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "data").write_text("x")
    return directory


def test_names_are_sorted_and_what_is_no_directory_is_refused(tmp_path):
    for name in ("b", "c", "a"):
        (tmp_path / name).touch()
    assert list_raw(tmp_path, "data") == ["a", "b", "c"]
    for name, problem in (("a", "is not a directory"), ("none", "does not exist")):
        expected = rf"/{name} {problem}; expected the directory that holds data; check --raw_data"
        with pytest.raises(SourceError, match=expected):
            list_raw(tmp_path / name, "data")


def test_the_likeliest_below_come_first_and_then_what_is_above(tmp_path):
    top = put(tmp_path / "top")
    raw = top / "middle" / "raw"
    right = [put(raw / "z"), put(raw / "a" / "b")]
    put(raw / "unnamed")
    assert [*likely(raw, ("z", "none", "a/b"), 2, holds)] == [*map(str, [*right, top])]
    assert [*likely(raw, (), 2, holds)] == [str(top)]
    for above in (0, 1, 3):
        assert not [*likely(raw, (), above, holds)]


def test_nothing_is_likelier_than_the_right_one(tmp_path):
    put(tmp_path)
    raw = put(tmp_path / "raw")
    put(raw / "below")
    assert not [*likely(raw, ("below",), 1, holds)]


def test_a_directory_that_cannot_be_looked_into_is_passed_over(tmp_path):
    put(tmp_path / "b")

    def fails_in_a(directory: Path) -> bool:
        if directory.name == "a":
            raise PermissionError
        return holds(directory)

    assert [*likely(tmp_path, ("a", "b"), 0, fails_in_a)] == [str(tmp_path / "b")]


def test_what_is_above_a_link_is_above_it_as_typed(tmp_path):
    typed = put(tmp_path / "typed")
    (tmp_path / "real" / "raw").mkdir(parents=True)
    (typed / "raw").symlink_to(tmp_path / "real" / "raw")
    assert [*likely(typed / "raw", (), 1, holds)] == [str(typed)]


def test_few_of_many_folders_are_tried(tmp_path):
    names = [f"{number:03}" for number in range(500)]
    tried = []
    assert not [*likely(tmp_path, names, 0, lambda directory: bool(tried.append(directory)))]
    assert 50 < len(tried) < 200
