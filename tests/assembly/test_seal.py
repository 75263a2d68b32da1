"""What may be missing, and names that come from archives."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep.assembly.bounding_boxes import read_bounding_boxes
from dataprep.assembly.rejected import safe_file_name
from dataprep.assembly.seal import MaxBad
from dataprep.errors import SourceError, UsageError


@pytest.mark.parametrize(
    ("text", "rejected", "images", "allowed"),
    [
        ("0", 0, 10, True),
        ("0", 1, 10, False),
        ("2", 2, 10, True),
        ("2", 3, 10, False),
        ("10%", 1, 10, True),
        ("10%", 2, 10, False),
        ("0.1%", 1281, 1_281_167, True),
        ("0.1%", 1282, 1_281_167, False),
        ("100%", 10, 10, True),
    ],
)
def test_max_bad(text: str, rejected: int, images: int, allowed: bool) -> None:
    assert MaxBad.parse(text).allows(rejected, images) is allowed


@pytest.mark.parametrize("text", ["", "-1", "1.5", "many", "101%", "%", "1 %", "٣"])
def test_max_bad_refuses_nonsense(text: str) -> None:
    with pytest.raises(UsageError, match="expected a number"):
        MaxBad.parse(text)


@given(st.text(min_size=1))
def test_a_key_never_leaves_its_directory(key: str) -> None:
    name = safe_file_name(key)
    assert name not in {"", ".", ".."}
    assert "/" not in name
    assert "\0" not in name
    assert not name.startswith(".")
    assert len(name.encode()) <= 255


@given(st.text(min_size=1), st.text(min_size=1))
def test_odd_keys_keep_apart(first: str, second: str) -> None:
    if first.replace("/", "_") != second.replace("/", "_"):
        assert safe_file_name(first) != safe_file_name(second)


def test_bounding_boxes(tmp_path: Path) -> None:
    path = tmp_path / "boxes.csv"
    path.write_text("a.JPEG,0.1,0.2,0.3,0.4\nb.JPEG,0,0,1,1\na.JPEG,0.5,0.5,0.5,0.5\n")
    assert read_bounding_boxes(path) == {
        "a.JPEG": ((0.1, 0.2, 0.3, 0.4), (0.5, 0.5, 0.5, 0.5)),
        "b.JPEG": ((0.0, 0.0, 1.0, 1.0),),
    }


@pytest.mark.parametrize(
    "line", ["a.JPEG,0,0,1", "a.JPEG,0,0,1,2", "a.JPEG,0.5,0,0.4,1", "name,xmin,ymin,xmax,ymax"]
)
def test_a_line_that_is_no_box_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "boxes.csv"
    path.write_text(f"a.JPEG,0,0,1,1\n{line}\n")
    with pytest.raises(SourceError, match="line 2"):
        read_bounding_boxes(path)


def test_a_missing_box_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"--bbox_csv .*none\.csv"):
        read_bounding_boxes(tmp_path / "none.csv")
