"""``dataprep.open(where=…, limit=…, sample=…)``: records like any other, in every format."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataprep
from dataprep.errors import DatasetError, UsageError
from dataprep.staging.plan import Share
from dataprep.training.records import Records
from tests.conftest import Made, rows_of
from tests.sealed.test_part import staged
from tests.training.conftest import READABLE

WHERE = "labels[1] <> (select min(label) from (select labels[1] as label from records))"


def keys(records: Records) -> list[str]:
    return [example.key for example in records]


# Of the others every day, `test_records`: what is chosen are numbers of records.
@pytest.mark.parametrize(
    "out",
    [name if name == "parquet" else pytest.param(name, marks=pytest.mark.thorough)
     for name in READABLE],
    indirect=True,
)  # fmt: skip
def test_what_is_chosen_is_read_like_all_of_it(out: Path) -> None:
    """In every format."""
    everything = list(dataprep.open(out))
    first = min(example.class_index for example in everything)
    expected = [example for example in everything if example.class_index != first]
    with dataprep.open(out, where=WHERE) as records:
        assert 0 < len(expected) < len(everything)
        assert list(records) == expected == [records[at] for at in range(len(records))]
        assert records[-1] == expected[-1]
        assert records.__getitems__([3, 0, 3]) == [expected[at] for at in (3, 0, 3)]
        assert records.encoded([2, 1]) == [expected[at].encoded for at in (2, 1)]
        assert records.labels.tolist() == [example.class_index for example in expected]
        assert records.by_key(expected[4].key) == expected[4]
        assert records.number_of(expected[4].key) == 4
        assert keys(records[2:5]) == [example.key for example in expected[2:5]]
        parts = [records.part(rank, 3) for rank in range(3)]
        assert [example for part in parts for example in part] == expected
        assert parts[1].table["key"].to_pylist() == keys(parts[1])
        assert list(pickle.loads(pickle.dumps(parts[2]))) == list(parts[2])
        with pytest.raises(UsageError, match="slices need the step 1"):
            records[::2]
        for wrong in (len(expected), -len(expected) - 1, 2**70):
            with pytest.raises(IndexError, match="no example"):
                records[wrong]
        other: tuple[Any, ...] = (None, 1.5, [0, 1], "0", np.array([1, 2]))
        for no_number in other:
            with pytest.raises(TypeError, match="is no number of an example"):
                records[no_number]


def test_the_table_is_that_of_the_records(tiny: Made) -> None:
    rows = {row["key"]: row for row in rows_of(tiny.out, "stored") if row["split"] == "train"}
    records = dataprep.open(tiny.out)
    assert records.table.to_pylist() == [rows[key] for key in keys(records)]
    some = dataprep.open(tiny.out, sample=0.4)
    assert some.table.to_pylist() == [rows[key] for key in keys(some)]
    assert len(dataprep.open(tiny.out, where="false").table) == 0


def test_a_limit_is_of_the_first_and_a_sample_is_taken_before_it(tiny: Made) -> None:
    everything = keys(dataprep.open(tiny.out))
    assert keys(dataprep.open(tiny.out, limit=5)) == everything[:5]
    assert len(dataprep.open(tiny.out, limit=99)) == 24
    half = keys(dataprep.open(tiny.out, sample=0.5))
    assert (len(half), half) == (12, [key for key in everything if key in half])
    assert keys(dataprep.open(tiny.out, sample=0.5, limit=3)) == half[:3]
    even = dataprep.open(tiny.out, sample=0.25, stratify=True)
    shares = np.bincount(even.labels)[np.unique(dataprep.open(tiny.out).labels)]
    assert (shares.sum(), shares.max() - shares.min() <= 1) == (6, True)


@pytest.mark.parametrize(
    ("choice", "line"),
    [
        ({"limit": 0}, "limit=0: expected"),
        ({"limit": "5"}, "limit='5': expected 1 or more, a whole number"),
        ({"sample": "10%"}, "sample=10%: expected a share"),
        ({"sample": 0.0}, "sample=0.0: expected a share"),
        ({"sample": 1.5}, "sample=1.5: expected a share"),
        ({"sample": float("nan")}, "sample=nan: expected a share"),
        ({"stratify": True}, "stratify=True says how to sample"),
        ({"where": "true) --"}, "SQL: Parser Error"),
    ],
)
def test_a_choice_that_cannot_be_made_is_one_line(
    tiny: Made, choice: dict[str, Any], line: str
) -> None:
    with pytest.raises(UsageError, match=line):
        dataprep.open(tiny.out, **choice)


def test_a_table_that_was_changed_is_not_asked(tiny: Made, tmp_path: Path) -> None:
    out = tiny.copy(tmp_path / "out")
    with (out / "records.parquet").open("ab") as file:
        file.write(b"x")
    with pytest.raises(DatasetError, match="is not the table that was sealed"):
        dataprep.open(out, where="true")
    with pytest.raises(DatasetError, match="is not the table that was sealed"):
        dataprep.sql(out, "select 1")
    assert len(dataprep.open(out, limit=2)) == 2  # which needs no table


def test_nodes_have_together_what_is_chosen_of_all(tiny: Made, tmp_path: Path) -> None:
    whole = dataprep.open(tiny.out, where="height = 16", sample=0.5)
    found: list[str] = []
    for rank in range(2):
        here = staged(tiny, tmp_path / str(rank), share=Share(rank, 2))
        mine = dataprep.open(here, where="height = 16", sample=0.5)
        assert mine.table["key"].to_pylist() == keys(mine)
        assert set(keys(mine)) == set(keys(whole)) & set(keys(dataprep.open(here)))
        found += keys(mine)
    assert sorted(found) == sorted(keys(whole))


def test_workers_of_a_loader_read_what_is_chosen(tiny: Made) -> None:
    pytest.importorskip("torch")
    from torch.utils.data import DataLoader  # type: ignore[import-not-found,unused-ignore]

    records = dataprep.open(tiny.out, where=WHERE)
    loader = DataLoader(records.to_torch(), batch_size=4, num_workers=2)
    labels = [int(label) for _, some in loader for label in some]
    assert labels == records.labels.tolist()
