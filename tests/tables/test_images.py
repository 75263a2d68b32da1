"""The joins of images with lists, and what is kept of a table."""

from __future__ import annotations

import hashlib
from fractions import Fraction

import pytest

from dataprep.errors import SourceError
from dataprep.rows import Row, Scanned
from dataprep_schemas.fields import BOXES, CAPTIONS, Field
from dataprep_schemas.manifest import Unmatched
from tests.tables.conftest import Find, listed, member, row


@pytest.mark.parametrize(
    ("labels", "multilabel", "complaint"),
    [
        ((), False, "train: x has 0 labels, expected exactly one"),
        ((0, 1), False, "train: x has 2 labels, expected exactly one"),
        ((2,), True, "train: x has the unknown class c; expected one of the list of classes"),
    ],
)
def test_labels_that_do_not_fit_are_refused(
    find: Find, labels: tuple[int, ...], multilabel: bool, complaint: str
) -> None:
    images = find(Scanned({"train": [row("x", labels=labels)]}))
    with pytest.raises(SourceError, match=complaint):
        images.choose(["train"], ["a", "b"], multilabel=multilabel, seed=0, limit=None)


def test_members_are_joined_by_key_or_alias_and_the_rest_is_named(find: Find) -> None:
    images = find(
        listed(
            {"key": "d/x", "split": "train", "labels": ["b"], "group": "g"},
            {"key": "s/y", "split": "test"},
            {"key": "d/gone", "split": "test"},
            {"key": "d/other", "split": "unwanted"},
        ),
        Scanned(members=[member("d/x"), member("y", "s/y"), member("z", "s/z")]),
        wanted=["train", "test"],
    )
    assert images.rows(
        'select key, split, labels, "group", container from images order by key'
    ) == [
        ("d/x", "train", ["b"], "g", "a.tar"),
        ("s/y", "test", ["a"], None, "a.tar"),
    ]
    assert images.unmatched() == Unmatched(1, 1, {"missing": ("d/gone",), "unlisted": ("z",)})
    (table,) = images.unstored()
    assert sorted(zip(*table.select(["status", "key"]).to_pydict().values(), strict=True)) == [
        ("missing", "d/gone"),
        ("unlisted", "z"),
    ]


@pytest.mark.parametrize("name", ["d/x", "x"])
def test_a_list_without_suffixes_finds_files_with_any(find: Find, name: str) -> None:
    names = [name, name.replace("x", "y")]
    members = [member("d/x.JPG"), member("d/y.png"), member("d/x.v2.jpg")]
    images = find(
        listed(*[{"key": it, "split": "train"} for it in names]), Scanned(members=members)
    )
    assert [key for (key,) in images.rows("select key from images order by key")] == names
    assert images.unmatched().first == {"unlisted": ("d/x.v2.jpg",)}
    names[1] += ".png"
    images = find(
        listed(*[{"key": it, "split": "train"} for it in names]), Scanned(members=members)
    )
    assert images.unmatched().first["missing"] == (name,)


def test_a_list_of_bare_names_finds_files_in_any_folder(find: Find) -> None:
    images = find(
        listed({"key": "x.png", "split": "train"}), Scanned(members=[member("deep/in/x.png")])
    )
    assert images.rows("select key from images") == [("x.png",)]


@pytest.mark.parametrize("limit", [5, Fraction(1, 8), Fraction(101, 1000)])  # a share is rounded up
def test_a_limit_takes_those_with_the_smallest_hashes(find: Find, limit: int | Fraction) -> None:
    keys = [f"{number:02d}" for number in range(40)]
    images = find(Scanned({"train": [row(key) for key in keys]}))
    images.choose(["train"], ["a"], multilabel=False, seed=3, limit=limit)
    smallest = sorted(
        keys,
        key=lambda key: int.from_bytes(hashlib.md5(f"3\0train\0{key}".encode()).digest(), "little"),
    )
    assert images.rows("select key from chosen order by key") == [
        (k,) for k in sorted(smallest[:5])
    ]


FIELDS = (BOXES, CAPTIONS, Field("age", "int"))


def test_the_digest_is_of_what_shapes_the_output_and_not_of_where_it_lies(find: Find) -> None:
    def digest_of(*rows: Row) -> str:
        images = find(Scanned({"train": rows}), fields=FIELDS)
        images.choose(["train"], ["a", "b"], multilabel=False, seed=0, limit=None)
        found = images.summaries()["train"]
        assert (found.images, found.bytes) == (len(rows), sum(each.size for each in rows))
        digest: str = found.digest
        return digest

    rows = [row("x", fields={"age": 5}), row("y", fields={"boxes": ((0.1, 0.2, 0.3, 0.4),)})]
    moved = [
        Row("y", "y", 0, 9, 77, (0,), rows[1].fields),
        Row("x", "b", 1, 9, 2, (0,), {"age": 5}),
    ]
    first = digest_of(*rows)
    assert digest_of(*moved) == first
    for change in (
        row("x", fields={"age": 6}),
        row("z", fields={"age": 5}),
        row("x", labels=(1,), fields={"age": 5}),
        row("x"),
        row("x", fields={"age": 5, "captions": ("a cat",)}),
    ):
        assert digest_of(change, rows[1]) != first
