"""``dataprep sql``, and ``dataprep inspect --labels``, from end to end."""

from __future__ import annotations

import csv
import json
import resource
from collections import defaultdict
from pathlib import Path

import pytest
from PIL import Image
from pyarrow import parquet

import dataprep
from dataprep.errors import UsageError
from dataprep.sealed import questions
from tests.conftest import FINDINGS, Cli, Made, read_labels, write_radiographs

COUNTS = "select split, count(*) as n from records where position is not null group by 1 order by 1"


@pytest.fixture(scope="module")
def chest(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """89 radiographs of 30 patients: raw, and prepared."""
    place = tmp_path_factory.mktemp("chest")
    write_radiographs(place / "raw")
    words = ("chestxray14", "--raw", place / "raw", "--out", place / "out", "--workers", "1")
    assert Cli()(*words).code == 0
    return place / "raw", place / "out"


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked is answered in this process, where that is not what is tried."""
    monkeypatch.setattr(questions, "_apart", lambda ask, *words: ask(*words))


def test_a_table_csv_and_json_of_one_set_and_of_several(
    cli: Cli, tiny: Made, request: pytest.FixtureRequest
) -> None:
    result = cli("sql", tiny.out, COUNTS)
    assert (result.code, result.err) == (0, "")
    assert result.out == "split        n\n----------  --\ntrain       24\nvalidation   6\n"
    request.getfixturevalue("here")
    assert cli("sql", tiny.out, COUNTS, "--format", "csv").out == (
        "split,n\ntrain,24\nvalidation,6\n"
    )
    assert json.loads(cli("sql", "--format", "json", tiny.out, COUNTS).out) == [
        {"split": "train", "n": 24},
        {"split": "validation", "n": 6},
    ]
    both = "select count(*) as n from a join b using (split, key)"
    assert cli("sql", f"a={tiny.out}", f"b={tiny.out}", both).out == " n\n--\n30\n"


@pytest.mark.usefixtures("here")
def test_cells_are_what_a_terminal_may_show_and_a_program_may_read(cli: Cli, tiny: Made) -> None:
    odd = "select 'a' || chr(27) || chr(10) || ',\"b' as c, [1, null] as l, null as n, 1.5 as d"
    assert cli("sql", tiny.out, odd).out.splitlines()[2] == 'a\\x1b\\n,"b  [1, null]     1.5'
    found = json.loads(cli("sql", tiny.out, odd, "--format", "json").out)
    assert found == [{"c": 'a\x1b\n,"b', "l": [1, None], "n": None, "d": 1.5}]
    other = "select date '2020-01-02' as t, 1000::hugeint as h, {'a': 1} as s, true as b"
    assert json.loads(cli("sql", tiny.out, other, "--format", "json").out) == [
        {"t": "2020-01-02", "h": 1000, "s": {"a": 1}, "b": True}
    ]
    nested = "select {'t': date '2020-01-02', 'd': 1.50, 'b': 'x'::blob} as s"
    assert cli("sql", tiny.out, nested).out.splitlines()[2] == (
        """{"t": "2020-01-02", "d": 1.5, "b": "b'x'"}"""
    )
    assert json.loads(cli("sql", tiny.out, nested, "--format", "json").out) == [
        {"s": {"t": "2020-01-02", "d": 1.5, "b": "b'x'"}}
    ]
    none = "select key from records where false"
    printed = [
        cli("sql", tiny.out, none, "--format", form).out for form in ("table", "csv", "json")
    ]
    assert printed == ["key\n---\n", "key\n", "[]\n"]


def test_a_question_has_a_bound_of_memory_and_its_set_none(
    cli: Cli, tiny: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system's, on a process that only asks: the database does not count such values."""
    before = resource.getrlimit(resource.RLIMIT_DATA)
    monkeypatch.setattr(questions, "MEMORY", 200_000_000)
    result = cli("sql", tiny.out, "select length(repeat('x', 400000000))")
    assert result.code == 2
    assert "SQL: it takes more than 1.0 GB of memory, as a question may" in result.error
    with pytest.raises(UsageError, match="it takes more than"):
        dataprep.open(tiny.out, where="length(list_resize([1], 100000000)) > 0")
    assert resource.getrlimit(resource.RLIMIT_DATA) == before
    assert len(dataprep.open(tiny.out, where="length(repeat('x', 4000)) > 0 and position < 2"))


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["{out}", "select vew from records"], "there is no column 'vew'; "),
        (["{out}", "select 1 from examples"], "there is no table 'examples'; that of a data set"),
        (["{out}", "select hight from records"], "did you mean height? expected one of key, "),
        (["{out}", "select * frm records"], "SQL: Parser Error: syntax error"),
        (["{out}", "drop view records"], "expected one that selects"),
        (["{out}", "from read_text('/etc/passwd')"], "Permission Error"),
        (
            ["{out}", "select date '20000-01-01'"],
            "not of the years 1 to 9999; ask for it as a text",
        ),
        (["{out}", "select [timestamp '20000-01-01']", "--format", "json"], "date::varchar"),
        (["{out}", "select 'infinity'::date, {{'a': date '5000-01-01 (BC)'}}"], "date::varchar"),
        (["{out}", "select key::int from records"], "SQL: Conversion Error: "),
        (["{out}", "{out}", "select 1"], "several data sets need a name each"),
        (["a={out}", "{out}", "select 1"], "several data sets need a name each"),
        (["a={out}", "A={out}", "select 1"], "cannot be names of tables"),
        (["{out}"], "Missing argument"),
        (["{out}/nowhere", "select 1"], "nowhere does not exist; name the directory of a data set"),
    ],
)
@pytest.mark.usefixtures("here")
def test_what_is_wrong_is_one_line(cli: Cli, tiny: Made, words: list[str], line: str) -> None:
    result = cli("sql", *(word.format(out=tiny.out) for word in words))
    assert result.code in (1, 2)
    assert line in result.error
    assert "root:" not in result.out + result.err


def test_the_table_of_labels_counts_images_and_patients(cli: Cli, chest: tuple[Path, Path]) -> None:
    raw, out = chest
    said = read_labels(raw)
    rows = parquet.read_table(out / "records.parquet").to_pylist()
    images: dict[tuple[str, str], int] = defaultdict(int)
    patients: dict[tuple[str, str], set[object]] = defaultdict(set)
    for row in rows:
        about = said[row["key"]]
        for name in (*(about.findings or ["no label"]), "total"):
            images[row["split"], name] += 1
            patients[row["split"], name].add(about.attributes["patient_id"])
    lines = [*csv.DictReader(cli("inspect", out, "--labels", "csv").out.splitlines())]
    assert [line["label"] for line in lines] == [*FINDINGS, "no label", "total"]
    for line in lines:
        for split in {row["split"] for row in rows}:
            place = split, line["label"]
            assert int(line[f"{split} n"]) == images[place]
            assert int(line[f"{split} patients"]) == len(patients[place])
            share = 100 * images[place] / images[split, "total"]
            assert line[f"{split} %"] == f"{share:.1f}"
    markdown = cli("inspect", out, "--labels", "markdown").out
    assert "| Pleural\\_Thickening |" in markdown


def test_names_of_labels_are_escaped(cli: Cli, tmp_path: Path, tiny: Made) -> None:
    name = r"50 % & a_b|c #{x} $y^2 \ ~<z>*"
    (tmp_path / "raw" / "train" / name).mkdir(parents=True)
    Image.new("RGB", (16, 16)).save(tmp_path / "raw" / "train" / name / "0.jpg")
    out = tmp_path / "out"
    assert cli("folder", "--raw", tmp_path / "raw", "--out", out).code == 0
    markdown = cli("inspect", out, "--labels", "markdown").out.splitlines()
    assert markdown[2] == r"| 50 % & a\_b\|c #{x} $y^2 \\ ~\<z\>\* | 1 | 100.0 |"
    assert "patients" not in markdown[0]
    assert cli("inspect", tmp_path / "raw", "--labels", "csv").code == 1
