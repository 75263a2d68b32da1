"""Merging index parts: key order, duplicates, and only numbers in memory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep.assembly.split_index import open_index
from dataprep.errors import SourceError
from dataprep.index import Row


def write_part(directory: Path, number: int, keys: list[str]) -> Path:
    path = directory / f"part-{number}.jsonl"
    lines = [
        Row(key, "c.tar", 512 * place, 7, 0, number).to_json() for place, key in enumerate(keys)
    ]
    header = json.dumps({"fingerprint": "", "digest": "", "rows": len(keys), "ignored": []})
    path.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    return path


def keys_of(parts: list[Path], directory: Path) -> list[str]:
    with open_index(parts, directory, seed=0, split="train") as index:
        return [Row.from_json(line).key for line in index.lines(range(len(index)))]


@given(
    st.lists(st.text(min_size=1, max_size=4), min_size=1, max_size=40, unique=True),
    st.integers(1, 6),
    st.randoms(use_true_random=False),
)
def test_parts_that_overlap_are_merged_in_key_order(
    tmp_path_factory: pytest.TempPathFactory, keys: list[str], count: int, generator: object
) -> None:
    directory = tmp_path_factory.mktemp("parts")
    hands: list[list[str]] = [[] for _ in range(count)]
    for place, key in enumerate(keys):
        hands[place % count].append(key)
    parts = [write_part(directory, number, sorted(hand)) for number, hand in enumerate(hands)]
    assert keys_of(parts[::-1], directory) == sorted(keys)


def test_the_input_hash_does_not_depend_on_the_parts(tmp_path: Path) -> None:
    whole = write_part(tmp_path, 0, ["a", "b", "c"])
    with open_index([whole], tmp_path, seed=0, split="train") as index:
        expected = index.input_sha256
    pieces = []
    for place, key in enumerate(["c", "a", "b"]):
        piece = write_part(tmp_path, place + 1, [key])
        piece.write_text(piece.read_text().replace(f",{place + 1}]", ",0]"))
        pieces.append(piece)
    with open_index(pieces, tmp_path, seed=5, split="train") as index:
        assert index.input_sha256 == expected


def test_the_same_name_twice_is_refused(tmp_path: Path) -> None:
    parts = [write_part(tmp_path, 0, ["a", "x"]), write_part(tmp_path, 1, ["b", "x"])]
    with pytest.raises(SourceError, match="two images have the same name, x"):
        keys_of(parts, tmp_path)


def test_no_images_at_all_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="train: no images found"):
        keys_of([write_part(tmp_path, 0, [])], tmp_path)


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    part = write_part(tmp_path, 0, ["a"])
    keys_of([part], tmp_path)
    assert list(tmp_path.iterdir()) == [part]
