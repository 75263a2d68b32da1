"""Merging index parts: key order, duplicates, labels, and only numbers in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep.assembly import key_order
from dataprep.assembly.index_parts import part_path, scan_into
from dataprep.assembly.split_index import SplitIndex, open_index
from dataprep.errors import SinkError, SourceError
from dataprep.index import Row, Scanned
from dataprep.keys import key_hash
from dataprep.sources.base import Dataset, Found, ScanUnit


class Listed(Dataset):
    """Gives what it was given."""

    name = "listed"

    def __init__(self, scanned: Scanned) -> None:
        super().__init__()
        self.scanned = scanned

    def find(self, raw: Path, splits: Sequence[str] | None) -> Found:
        raise NotImplementedError

    def scan(self, raw: Path, unit: ScanUnit) -> Scanned:
        return self.scanned

    def fingerprint(self, raw: Path, unit: ScanUnit) -> str:
        return ""


def write_part(
    directory: Path, name: str, rows: Sequence[Row], *, classes: Sequence[str] | None = None
) -> Path:
    """A part with the rows in split train, between those of two other splits."""
    unit = ScanUnit(name, "c.tar")
    splits = {"test": [row_of("t")], "train": rows, "validation": [row_of("v"), row_of("w")]}
    scan_into(directory, Listed(Scanned(splits, classes=classes)), directory, unit)
    return part_path(directory, unit)


def row_of(key: str, *labels: int, group: str = "", container: str = "c.tar") -> Row:
    return Row(key, container, 512, 7, 0, labels or (0,), group=group)


def write_keys(directory: Path, hands: Sequence[Sequence[str]]) -> list[Path]:
    return [
        write_part(directory, f"part-{number}", [row_of(key, number) for key in sorted(hand)])
        for number, hand in enumerate(hands)
    ]


@contextmanager
def opened(
    parts: Sequence[Path],
    *,
    classes: Sequence[str] | None = None,
    multilabel: bool = False,
    seed: int = 0,
) -> Iterator[SplitIndex]:
    directory = parts[0].parent
    with open_index(
        parts, directory, seed=seed, split="train", classes=classes, multilabel=multilabel
    ) as index:
        yield index


def rows_in(index: SplitIndex) -> list[Row]:
    return [Row.from_json(line) for line in index.lines(range(len(index)))]


def keys_of(parts: Sequence[Path]) -> list[str]:
    with opened(parts) as index:
        return [row.key for row in rows_in(index)]


def dealt_round(keys: Sequence[str], count: int) -> list[list[str]]:
    return [list(keys[number::count]) for number in range(count)]


keys_in_utf8 = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=4)
keys_undecodable = st.binary(min_size=1, max_size=4).map(
    lambda name: name.decode("utf-8", "surrogateescape")
)


@given(
    st.lists(keys_in_utf8 | keys_undecodable, min_size=1, max_size=30, unique=True),
    st.integers(1, 9),
    st.integers(2, 4),
)
def test_parts_that_overlap_are_merged_in_key_order(
    tmp_path_factory, keys, count, most_open
) -> None:
    parts = write_keys(tmp_path_factory.mktemp("parts"), dealt_round(keys, count))
    with patch.object(key_order, "MOST_OPEN", most_open):
        assert keys_of(parts[::-1]) == sorted(keys)


@pytest.mark.parametrize(
    ("hands", "expected"),
    [
        pytest.param(["ab", "cd", "ef", "gh", "ij"], 1, id="apart"),
        pytest.param(["ac", "bd", "eg", "fh", "ij"], 2, id="two at a time"),
        pytest.param(["az", "by", "cx", "dw", "ev", "fu", "gt"], 3, id="more than may be open"),
    ],
)
def test_few_files_are_open_at_a_time(tmp_path, monkeypatch, hands, expected) -> None:
    parts = write_keys(tmp_path, hands)
    now, most = 0, 0

    def counted(path: Path, split: str) -> Iterator[bytes]:
        nonlocal now, most
        now += 1
        most = max(most, now)
        yield from lines(path, split)
        now -= 1

    lines = key_order.read_lines
    monkeypatch.setattr(key_order, "read_lines", counted)
    monkeypatch.setattr(key_order, "MOST_OPEN", 3)
    assert keys_of(parts) == sorted("".join(hands))
    assert most == expected


@pytest.mark.parametrize("length", [1, 4095, 4096, 4097, 20_000])
def test_lines_of_any_length_bound_a_part(tmp_path, length) -> None:
    # Were the last key read wrongly, the parts would seem to lie apart.
    parts = [
        write_part(tmp_path, "a", [row_of("a"), row_of("k" * length)]),
        write_part(tmp_path, "b", [row_of("b"), row_of("z")]),
    ]
    assert keys_of(parts) == ["a", "b", "k" * length, "z"]


def test_parts_without_rows_of_the_split_do_not_matter(tmp_path) -> None:
    parts = [write_part(tmp_path, "none", []), *write_keys(tmp_path, ["b", "a"])]
    assert keys_of(parts) == ["a", "b"]


def test_the_same_name_twice_is_refused(tmp_path) -> None:
    with pytest.raises(SourceError, match=r"same name, x, in c\.tar and c\.tar; rename one"):
        keys_of(write_keys(tmp_path, ["ax", "bx"]))


def test_the_same_name_at_the_ends_of_two_parts_is_refused(tmp_path) -> None:
    with pytest.raises(SourceError, match="two images have the same name, x"):
        keys_of(write_keys(tmp_path, ["ax", "xy"]))


def test_a_scan_that_does_not_sort_is_refused(tmp_path) -> None:
    part = write_part(tmp_path, "p", [row_of("a"), row_of("c"), row_of("b"), row_of("d")])
    with pytest.raises(SourceError, match="train: the scan gave b after c"):
        keys_of([part])


def test_no_images_at_all_is_an_error(tmp_path) -> None:
    with pytest.raises(SourceError, match="train: no images found"):
        keys_of([write_part(tmp_path, "p", [])])


@pytest.mark.parametrize("hands", [["af", "be", "cd"], ["af", "be", "ca"]], ids=["good", "bad"])
def test_nothing_is_left_behind(tmp_path, monkeypatch, hands) -> None:
    monkeypatch.setattr(key_order, "MOST_OPEN", 2)
    parts = write_keys(tmp_path, hands)
    try:
        with opened(parts):
            assert len(list(tmp_path.iterdir())) == len(parts) + 1  # only the rows
    except SourceError:
        assert "ca" in hands
    assert sorted(tmp_path.iterdir()) == parts


def test_a_directory_that_cannot_be_written_is_named(tmp_path) -> None:
    parts, gone = write_keys(tmp_path, ["a"]), tmp_path / "gone"
    with (
        pytest.raises(SinkError, match="gone cannot be written while ordering train"),
        open_index(parts, gone, seed=0, split="train", classes=None),
    ):
        raise NotImplementedError


RICH = [
    Row("a", "c.zip", 0, 5, 1, (0, 2), packing=("deflate", 3, 9), attributes={"age": 58}),
    Row("b", "c.zip", 9, 6, 1, (), group="7"),
    Row("c\udcff", "c.zip", 99, 7, 1, (1,), ((0.0, 0.0, 0.5, 1.0),), (1,)),
    Row("d", "c.zip", 999, 8, 1, (2,)),
]


def test_the_input_hash_is_over_the_facts_of_every_row(tmp_path) -> None:
    expected = hashlib.sha256(b"".join(row.facts() for row in RICH)).hexdigest()
    with opened([write_part(tmp_path, "p", RICH)], multilabel=True) as index:
        assert index.input_sha256 == expected
        assert rows_in(index) == RICH


@given(keys_in_utf8 | keys_undecodable, st.integers(0, 10**6), st.integers(0, 30_000))
def test_a_row_without_extras_has_the_facts_it_always_had(
    tmp_path_factory, key, size, label
) -> None:
    row = Row(key, "c.tar", 512, size, 0, (label,))
    text = f"{key}\0{size}\0{label}\n".encode("utf-8", "surrogateescape")
    assert row.facts() == text
    with opened([write_part(tmp_path_factory.mktemp("parts"), "p", [row])]) as index:
        assert index.input_sha256 == hashlib.sha256(text).hexdigest()
        assert (index.classes.tolist(), index.sizes.tolist()) == ([label], [size])


def test_the_input_hash_depends_neither_on_the_parts_nor_on_the_seed(tmp_path) -> None:
    rows = [row_of("a"), row_of("b"), row_of("c")]
    with opened([write_part(tmp_path, "whole", rows)]) as index:
        expected = index.input_sha256
    pieces = [write_part(tmp_path, f"piece-{row.key}", [row]) for row in reversed(rows)]
    with opened(pieces, seed=5) as index:
        assert index.input_sha256 == expected


def test_labels_of_a_part_become_those_of_the_data_set(tmp_path) -> None:
    box = (0.0, 0.0, 1.0, 1.0)
    boxed = Row("c", "c.tar", 0, 1, 0, (0, 1), (box, box), (1, 0))
    parts = [
        write_part(tmp_path, "p", [row_of("a", 0), row_of("z", 1)], classes=["cat", "owl"]),
        write_part(tmp_path, "q", [row_of("b", 0), boxed], classes=["owl", "ant"]),
        write_part(tmp_path, "r", [row_of("d", 2)]),
    ]
    with opened(parts, classes=["ant", "cat", "owl"], multilabel=True) as index:
        rows = {row.key: row for row in rows_in(index)}
        expected = hashlib.sha256(b"".join(row.facts() for row in rows.values())).hexdigest()
        assert index.input_sha256 == expected
    labels = {key: row.labels for key, row in rows.items()}
    assert labels == {"a": (1,), "b": (2,), "c": (0, 2), "d": (2,), "z": (2,)}
    assert rows["c"].box_labels == (0, 2)  # still in the order of the boxes


def test_labels_stay_where_the_data_set_names_its_classes(tmp_path) -> None:
    part = write_part(tmp_path, "p", [row_of("a", 3)], classes=["cat"])
    with opened([part]) as index:
        assert rows_in(index)[0].labels == (3,)


def test_the_category_of_an_image_with_one_label_is_its_class(tmp_path) -> None:
    with opened([write_part(tmp_path, "p", [row_of("a", 9), row_of("b", 4)])]) as index:
        assert index.classes.tolist() == [9, 4]
        assert index.groups is None


@pytest.mark.parametrize("labels", [(), (1, 2)])
def test_any_number_of_labels_must_be_announced(tmp_path, labels) -> None:
    part = write_part(tmp_path, "p", [Row("a", "c.tar", 0, 1, 0, labels)])
    with pytest.raises(SourceError, match=rf"train: a has {len(labels)} labels, expected exactly"):
        keys_of([part])


def test_the_category_of_an_image_with_many_labels_is_the_place_of_its_set(tmp_path) -> None:
    # Label 1 is rarer than label 0, so the sets come as (), (0), (0 and 1), (1).
    sets = [(0,), (1,), (), (0, 1), (0,), (), (0,)]
    rows = [Row(key, "c.tar", 0, 1, 0, labels) for key, labels in zip("abcdefg", sets, strict=True)]
    parts = [write_part(tmp_path, "p", rows[::2]), write_part(tmp_path, "q", rows[1::2])]
    with opened(parts, multilabel=True) as index:
        assert index.classes.tolist() == [1, 3, 0, 2, 1, 0, 1]
        assert index.classes.dtype == np.int32


def test_groups_are_hashes_and_zeros_where_there_is_none(tmp_path) -> None:
    groups = ["", "", "7", "8", "", "7", ""]
    rows = [row_of(key, group=group) for key, group in zip("abcdefg", groups, strict=True)]
    with opened([write_part(tmp_path, "p", rows)]) as index:
        expected = [key_hash(group) if group else bytes(16) for group in groups]
        assert index.groups is not None
        assert index.groups.tolist() == expected
        taken = index.take(np.asarray([2, 4]))
        assert taken.groups is not None
        assert taken.groups.tolist() == [key_hash("7"), bytes(16)]


def test_some_rows_are_what_they_were_among_all(tmp_path) -> None:
    chosen = np.asarray([1, 3])
    part = write_part(tmp_path, "p", RICH)
    with opened([part], multilabel=True) as index:
        some = index.take(chosen)
        assert rows_in(some) == [RICH[1], RICH[3]]
        assert some.hashes.tolist() == index.hashes[chosen].tolist()
        assert some.classes.tolist() == index.classes[chosen].tolist()
        assert some.sizes.tolist() == [6, 8]
        expected = hashlib.sha256(RICH[1].facts() + RICH[3].facts()).hexdigest()
        assert some.input_sha256 == expected
