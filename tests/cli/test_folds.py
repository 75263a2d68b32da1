"""``--folds``: every image has one, in the table and in the shards; nothing else changes."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import dataprep
from tests.conftest import Cli, Made, Raw, rows_of


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


def test_what_is_appended_fills_and_moves_nothing(cli: Cli, folders: Made, tmp_path: Path) -> None:
    raw, out = tmp_path / "raw", tmp_path / "out"
    shutil.copytree(folders.raw.path, raw)
    later = sorted(raw.rglob("*.jpg"))[::3]
    for path in later:
        path.rename(tmp_path / f"{path.parent.name}-{path.name}")
    options = ("--fractions", "train=0.7,test=0.3", "--folds", "3", "--workers", "1")
    make = Raw(raw, options, "folder")
    assert cli(*make.command(out)).code == 0
    before = {row["key"]: row["fold"] for row in rows_of(out)}
    for path in later:
        shutil.copy(tmp_path / f"{path.parent.name}-{path.name}", path)
    result = cli(*make.command(out, "--append"))
    assert result.code == 0, result
    after = {row["key"]: row["fold"] for row in rows_of(out)}
    assert len(after) > len(before)
    assert {key: after[key] for key in before} == before
    assert None not in after.values()
