"""``--folds``: every image has one, in the table and in the shards; nothing else changes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import dataprep
from tests.conftest import Cli, Made, rows_of


def test_each_class_is_spread_over_the_folds(cli: Cli, tiny: Made, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert cli(*tiny.raw.command(out, "--folds", 4)).code == 0
    rows = rows_of(out, "stored")
    counts = Counter((row["split"], row["classes"][0], row["fold"]) for row in rows)
    train = [number for (split, *_), number in counts.items() if split == "train"]
    assert train == [2] * 12
    of_validation = Counter(row["fold"] for row in rows if row["split"] == "validation")
    assert sorted(of_validation.values()) == [1, 1, 2, 2]
    by_key = {row["key"]: row["fold"] for row in rows}
    assert all(it.fields["fold"] == by_key[it.key] for it in dataprep.open(out))
    there = [it.key for it in dataprep.open(tiny.out)]
    assert [it.key for it in dataprep.open(out)] == there
    refused = cli(*tiny.raw.command(out, "--folds", 5))
    assert refused.code == 1
    assert "--folds 4, now 5" in refused.error


def test_a_patient_is_in_one_fold(cli: Cli, radiographs: Made, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert cli(*radiographs.raw.command(out, "--folds", 3)).code == 0
    rows = rows_of(out, "stored", "repaired")
    folds = {(row["split"], row["key"][:8], row["fold"]) for row in rows}
    assert len(folds) == len({(split, patient) for split, patient, _ in folds})
    assert {fold for *_, fold in folds} == {0, 1, 2}
