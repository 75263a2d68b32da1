"""`dataprep lint` finds what was planted, and says it in a line."""

import csv
import json
from pathlib import Path

import pytest
from pyarrow import parquet

import dataprep
from dataprep.errors import DatasetError
from dataprep.review.rules import RULES
from tests.conftest import Cli, Made, rows_of
from tests.review.conftest import HOSTILE, Planted
from tests.sealed.test_verify import resealed

FOUND = {
    "leak": ["validation/c0/leak.jpg = train/c0/00.jpg"],
    "conflict": ["train/c1/01.jpg = train/c2/conflict.jpg"],
    "copy": ["train/c2/02.jpg = train/c2/copy.jpg"],
    "one-split-class": [f"{HOSTILE} ({HOSTILE}) is only in train"],
    "small-class": [
        f"train: {HOSTILE} ({HOSTILE}) has 1",
        "validation: c1 (c1) has 2",
        "validation: c0 (c0) has 4",
        "validation: c2 (c2) has 2",
    ],
    "imbalance": [f"train: c1 has 13, {HOSTILE} has 1"],
    "blank": ["train/c1/blank.jpg: contrast 0.0"],
    "tiny": ["train/c1/narrow.jpg: 300x30"],
    "narrow": ["train/c1/narrow.jpg: 300x30"],
    "rejected": ["train/c1/bad.jpg: truncated JPEG"],
    "ignored": ["read.me"],
}


def found_by(out: Path, rule: str, **options: object) -> list[str]:
    (entry,) = dataprep.lint(out, rules=[rule], **options).rules  # type: ignore[arg-type]
    assert entry.rule == rule
    assert entry.count >= len(entry.findings)
    return [finding.text for finding in entry.findings]


def test_what_was_planted_is_found(planted: Planted) -> None:
    found = {entry.rule: entry for entry in dataprep.lint(planted.out, rules=[*FOUND]).rules}
    for rule, expected in FOUND.items():
        texts = [finding.text for finding in found[rule].findings]
        assert len(texts) == len(expected) <= found[rule].count
        for said in expected:
            assert any(said in text for text in texts), texts


def test_nearly_the_same_images_are_found_with_their_distance(planted: Planted) -> None:
    (leak,) = found_by(planted.out, "near-leak")
    assert leak.startswith("validation/c0/near.jpg ~ train/c0/03.jpg: ")
    (copy,) = found_by(planted.out, "near-copy")
    assert copy.startswith("train/c1/04.jpg ~ train/c1/grey.jpg: ")
    assert found_by(planted.out, "near-leak", distance=0) == []


def test_rules_that_find_nothing_are_quiet(planted: Planted, tiny: Made, cli: Cli) -> None:
    assert found_by(planted.out, "empty-class") == []
    assert found_by(planted.out, "unmatched") == []
    result = cli("lint", tiny.out, "--rules", "leak,conflict,copy", "--fail_on", "any")
    assert (result.code, result.out.splitlines()[-1]) == (0, f"{tiny.out}: nothing odd")


def test_the_worst_comes_first_and_fails_if_that_is_asked_for(planted: Planted, cli: Cli) -> None:
    result = cli("lint", planted.out, "--show", 1, "--fail_on", "leak")
    assert result.code == 5
    assert "--fail_on met leak" in result.error
    levels = [line.partition(":")[0] for line in result.out.splitlines() if line[0].isalpha()]
    order = [level for level in levels if level in ("error", "warning", "note")]
    assert order == sorted(order, key=["error", "warning", "note"].index)
    assert "  and 3 more (--show)" in result.out
    assert cli("lint", planted.out, "--fail_on", "empty-class").code == 0
    assert cli("lint", planted.out, "--fail_on", "error").code == 5


def test_json_has_all_and_says_no_progress(planted: Planted, tiny: Made, cli: Cli) -> None:
    result = cli("lint", planted.out, "--json", "--rules", "leak")
    (entry,) = json.loads(result.out)["rules"]
    assert entry["findings"][0]["images"] == [["validation", "c0/leak.jpg"], ["train", "c0/00.jpg"]]
    result = cli("lint", tiny.out, "--json", "--rules", "empty-class")
    (entry,) = json.loads(result.out)["rules"]
    assert len(entry["findings"]) == entry["count"] == 991
    assert result.err == ""


def test_progress_begins_where_images_are_compared(
    planted: Planted, cli: Cli, tmp_path: Path
) -> None:
    assert cli("lint", planted.out, "--rules", "tiny").err == ""
    refused = cli("lint", tmp_path)
    assert refused.code == 1
    assert refused.err.startswith("dataprep: error: ")
    assert "not a finished data set" in refused.error
    assert "lint: 100% 64/64 comparisons" in cli("lint", planted.out, "--rules", "near-leak").err


def test_of_copies_those_of_validation_are_kept(planted: Planted, tmp_path: Path) -> None:
    place = tmp_path / "exclude.csv"
    found = dataprep.lint(planted.out, write_exclude=place)
    rows = list(csv.DictReader(place.read_text().splitlines()))
    assert found.excluded == len(rows)
    assert found.undecided == 2  # c1/01.jpg and c2/conflict.jpg: nobody knows which label is right
    assert {(row["split"], row["key"]): row["instead_of"] for row in rows} == {
        ("train", "c0/00.jpg"): "validation/c0/leak.jpg",
        ("train", "c0/03.jpg"): "validation/c0/near.jpg",
        ("train", "c2/copy.jpg"): "train/c2/02.jpg",
        ("train", "c1/grey.jpg"): "train/c1/04.jpg",
        ("train", "c1/blank.jpg"): "",
    }


def test_every_finding_is_a_row(planted: Planted, cli: Cli, tmp_path: Path) -> None:
    result = cli("lint", planted.out, "--format", "csv", "--show", 1, "--rules", "leak,small-class")
    leak, *small = csv.DictReader(result.out.splitlines())
    assert (leak["rule"], leak["level"], leak["split"]) == ("leak", "error", "validation")
    assert json.loads(leak["images"]) == [["validation", "c0/leak.jpg"], ["train", "c0/00.jpg"]]
    assert {line["key"] for line in small} == {""}
    assert len(small) == 4
    whole = cli("lint", planted.out, "--json").out
    assert cli("lint", planted.out, "--format", "json").out == whole
    for name in ("findings.csv", "findings.parquet"):
        dataprep.report(planted.out, to=tmp_path / "report.html", findings=tmp_path / name)
    lines = [*csv.DictReader((tmp_path / "findings.csv").read_text().splitlines())]
    assert lines == parquet.read_table(tmp_path / "findings.parquet").to_pylist()
    assert len(lines) == sum(rule["count"] for rule in json.loads(whole)["rules"])
    refused = cli("report", planted.out, "--to", tmp_path / "a.html", "--findings", "a.xls")
    assert "expected a name that ends with .csv or .parquet" in refused.error


def test_what_was_not_measured_is_said(planted: Planted, cli: Cli, tmp_path: Path) -> None:
    out = tmp_path / "out"
    made = cli("folder", "--raw", planted.raw, "--out", out, "--max_bad", 1, "--check", "header")
    assert made.code == 0, made
    result = cli("lint", out)
    assert "images not measured (made with --check header" in result.out
    assert "leak: the same image, byte for byte" in result.out
    assert "near-" not in result.out.replace("near-leak", "", 0).split("note:")[0]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--rules", "leek"), "there is no rule 'leek'; expected some of leak, "),
        (("--fail_on", "worst"), "there is no rule 'worst'"),
        (("--write_exclude", "/no/such/place"), "choose another file (--write_exclude)"),
    ],
)
def test_wrong_usage_is_a_line(
    planted: Planted, cli: Cli, words: tuple[str, ...], said: str
) -> None:
    result = cli("lint", planted.out, *words)
    assert result.code == 2
    assert said in result.error


def test_every_rule_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "review.md").read_text()
    for rule in RULES:
        assert f"`{rule.name}`" in page


def test_what_is_to_be_left_out_is_left_out_and_counted(
    planted: Planted, cli: Cli, tmp_path: Path
) -> None:
    place, out = tmp_path / "exclude.csv", tmp_path / "out"
    dataprep.lint(planted.out, write_exclude=place)
    with place.open("a") as file:
        file.write("train,no/such.jpg,,\n")
    words = ("folder", "--raw", planted.raw, "--out", out, "--max_bad", 2)  # and one is rejected
    early = cli(*words[:-2], "--exclude", place)
    assert early.code == 3
    assert "1 name in --exclude that no image has, or several have, --max_bad" in early.error
    made = cli(*words, "--exclude", place)
    assert made.code == 0, made
    assert "5 images left out (--exclude); 1 name there that no image has, or" in made.out
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["totals"]["excluded"] == manifest["excluded"]["images"] == 5
    left = {(row["split"], row["key"]) for row in rows_of(out, "excluded")}
    named = csv.DictReader(place.read_text().splitlines())
    assert left == {(row["split"], row["key"]) for row in named} - {("train", "no/such.jpg")}
    duplicates = "leak,near-leak,copy,near-copy,blank"  # conflicts are left to people
    assert cli("lint", out, "--rules", duplicates, "--fail_on", "any").code == 0
    # Another list is another data set.
    refused = cli(*words)
    assert refused.code == 1
    assert "--exclude a list, now none" in refused.error
    assert cli(*words, "--exclude", place).code == 0


@pytest.mark.parametrize("content", ["key\nx\n", "split;key\n", "split,key\ntrain\n", None])
def test_a_list_of_another_kind_is_refused(
    planted: Planted, cli: Cli, tmp_path: Path, content: str | None
) -> None:
    place = tmp_path / "exclude.csv"
    if content is not None:
        place.write_text(content)
    words = ("--raw", planted.raw, "--out", tmp_path / "out", "--exclude", place)
    result = cli("folder", *words)
    assert result.code == 2
    assert result.out == ""
    assert f"--exclude {place} can" in result.error
    assert "expected a CSV" in result.error


def test_a_table_of_an_earlier_version_is_refused_in_a_line(
    tiny: Made, tmp_path: Path, cli: Cli
) -> None:
    out = tiny.copy(tmp_path / "out")
    path = out / "records.parquet"
    for _ in resealed(out):
        parquet.write_table(parquet.read_table(path).drop_columns(["phash"]), path)
    result = cli("lint", out)
    assert result.code == 1
    assert "has no column phash of string" in result.error
    with pytest.raises(DatasetError, match="has no column phash"):
        dataprep.open(out, split="train").by_key("n01440764_0.JPEG")
