"""What may be missing, and names that come from archives."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep.build.request import MaxBad
from dataprep.build.workspace import Workspace
from dataprep.errors import UsageError

WORKSPACE = Workspace(Path("out"))


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
    place = WORKSPACE.rejected_image("train", key)
    name = place.name
    assert place.parent == WORKSPACE.rejected / "train"
    assert name not in {"", ".", ".."}
    assert "/" not in name
    assert "\0" not in name
    assert not name.startswith(".")
    assert len(name.encode()) <= 255


@given(st.text(min_size=1), st.text(min_size=1))
def test_odd_keys_keep_apart(first: str, second: str) -> None:
    if first.replace("/", "_") != second.replace("/", "_"):
        images = {WORKSPACE.rejected_image("train", key) for key in (first, second)}
        assert len(images) == 2
