"""What the documentation says is what the program does."""

from __future__ import annotations

import importlib.util
import io
import pkgutil
import re
import shlex
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import pytest
from PIL import Image

import dataprep
from dataprep.cli import main
from dataprep.datasets.chestxray14.dataset import ChestXray14
from dataprep.datasets.chestxray14.options import FINDINGS
from dataprep.plugins import DATASETS, OUR_PACKAGE, SINKS, installed, load_sink, package_of
from dataprep_schemas import imagenet_classes
from dataprep_schemas.tables import RECORDS
from tests.conftest import Cli, Made, Raw, rows_of
from tests.regenerate_docs import pages

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
OUTPUT_PAGE = (ROOT / "docs" / "output.md").read_text(encoding="utf-8")
DATASETS_PAGE = (ROOT / "docs" / "datasets.md").read_text(encoding="utf-8")


def test_pages_made_from_the_program_are_up_to_date() -> None:
    for path, text in pages().items():
        assert path.read_text(encoding="utf-8") == text, "run python -m tests.regenerate_docs"


def test_every_public_name_is_explained() -> None:
    text = pages()[ROOT / "docs" / "api.md"]
    for name in set(dataprep.__all__) - {"__version__"}:
        assert f"\n## dataprep.{name}\n" in text
        assert len(text.partition(f"\n## dataprep.{name}\n")[2].partition("\n## ")[0]) > 80, name


def test_the_python_page_runs_from_top_to_bottom(
    tiny: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 80
    blocks = re.findall(r"(<!-- needs: torch -->\n)?```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 6
    monkeypatch.chdir(tmp_path)
    (tmp_path / "RAW").symlink_to(tiny.raw.path)
    torch = importlib.util.find_spec("torch") is not None
    place: dict[str, Any] = {"__name__": "__main__"}
    exec("".join(code for needs, code in blocks if torch or not needs), place)
    example = place["records"][0]
    assert place["labels"].tolist() == [known(one.key) for one in place["records"]]
    assert imagenet_classes()[place["labels"][0]] == (place["identifier"], place["name"])
    assert place["picture"].size == (16, 16)
    assert place["pixels"].tobytes() == Image.open(io.BytesIO(example.encoded)).tobytes()
    if torch:
        assert len(place["dataset"]) == 24
        assert place["sizes"][0].tolist() == [16] * len(place["targets"])
    said = capsys.readouterr().out
    assert "dataprep imagenet has no option 'sinc'; did you mean sink?\n" in said
    assert "write: 100% 30/30 images" in said
    assert "sealed OUT/manifest.json: 30 records in 6 shards" in said


def known(key: str) -> int:
    """The class of a training image, which its name begins with."""
    return [synset for synset, _ in imagenet_classes()].index(Path(key).name.split("_")[0])


def resolve(name: str) -> Any:
    """What a dotted name in the text stands for; None if nothing."""
    with suppress(ImportError, AttributeError):
        return pkgutil.resolve_name(name)
    return None


def session() -> list[tuple[list[str], list[str]]]:
    """The README's terminal sessions: each command's words, and what it prints."""
    blocks = re.findall(r"```console\n(\$ dataprep.*?)```", README, re.DOTALL)
    assert len(blocks) == 2
    steps: list[tuple[list[str], list[str]]] = []
    for line in "".join(blocks).splitlines():
        if line.startswith("$ "):
            steps.append((shlex.split(line[2:]), []))
        else:
            steps[-1][1].append(line)
    return steps


def without_sizes(text: str) -> str:
    """Sizes depend on the versions of numpy and of the JPEG encoder; nothing else may."""
    return re.sub(r"[\d,.]+ (MB|KB|bytes)", r"# \1", text)


def test_the_readme_session_is_real(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for words, expected in session():
        assert words[0] == "dataprep"
        assert main(words[1:]) == 0
        printed = capsys.readouterr().out.splitlines()
        assert [without_sizes(line) for line in printed] == [
            without_sizes(line) for line in expected
        ]
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    place: dict[str, Any] = {}
    exec(code, place)
    assert place["records"].labels.tolist() == [known(one.key) for one in place["records"]]
    assert place["picture"].size == (place["records"][0].width, place["records"][0].height)
    assert len(place["share"]) == -(-len(place["records"]) // 4)


def test_names_that_pages_give_can_be_imported() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for name in re.findall(r"`(dataprep\.[\w.]+)", page.read_text(encoding="utf-8")):
            assert resolve(name), f"{page.name}: {name}"


def test_every_sink_is_in_the_readme_and_loads() -> None:
    assert installed(DATASETS)
    for name in installed(SINKS):
        assert f"| `{name}` |" in README
        assert load_sink(name).name == name


def test_every_data_set_is_on_its_page() -> None:
    for name, point in installed(DATASETS).items():
        if package_of(point) == OUR_PACKAGE:
            assert f"| `{name}` |" in DATASETS_PAGE


def test_the_page_of_data_sets_quotes_what_is_tested() -> None:
    quoted = re.findall(r"<!-- from: ([^\n]+) -->\n```\w+\n(.*?)```", DATASETS_PAGE, re.DOTALL)
    assert len(quoted) == DATASETS_PAGE.count("<!-- from:") == 3
    for path, text in quoted:
        assert text in (ROOT / path).read_text(encoding="utf-8"), f"{path} has changed"


def test_the_page_of_data_sets_explains_chestxray14() -> None:
    text = DATASETS_PAGE.partition("## ChestX-ray14")[2].partition("## Adding one")[0]
    block = re.search(r"<!-- findings -->\n```\n(.*?)```", text, re.DOTALL)
    assert block is not None
    assert tuple(block.group(1).split()) == FINDINGS
    for option in ChestXray14.OPTIONS:
        assert f"`--{option.name}" in text
    for attribute in ChestXray14.attributes:
        assert f"| `{attribute.name}` |" in text


def test_links_lead_somewhere() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
    for source in pages:
        for target in re.findall(r"\]\((?!http)([^)#]+)", source.read_text(encoding="utf-8")):
            assert (source.parent / target).exists(), f"{source.name} links to {target}"


def test_every_promise_of_the_security_page_has_its_test() -> None:
    text = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    named = re.findall(r"`(tests/[\w/.]+)(?:::(\w+))?`", text)
    assert len(named) > 20
    for path, name in named:
        assert (ROOT / path).exists(), path
        assert not name or f"def {name}(" in (ROOT / path).read_text(encoding="utf-8"), name


def test_the_changelog_has_a_place_for_what_is_new() -> None:
    assert "## Unreleased" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_columns_of_the_table_are_those_of_the_output_page() -> None:
    section = OUTPUT_PAGE.partition("## records.parquet")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| (\S+) \| (.+) \|$", section, re.MULTILINE)
    assert rows == [(name, kind, meaning) for name, (kind, meaning) in RECORDS.items()]


def test_the_queries_of_the_output_page_answer_what_they_ask(
    cli: Cli, spoilt: Raw, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli(*spoilt.command(tmp_path / "OUT", "--max_bad", 4)).code == 0
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"```sql\n(.*?)```", OUTPUT_PAGE, re.DOTALL)
    example = rows_of(tmp_path / "OUT", "stored")[3]
    block = block.replace("n01440764/n01440764_10026.JPEG", example["key"])
    odd, classes, place, twice, sizes = (
        duckdb.sql(query).fetchall() for query in block.split(";") if query.strip()
    )
    assert sorted(row[1] for row in odd) == ["rejected"] * 4 + ["repaired"] * 2
    records = rows_of(tmp_path / "OUT", "stored", "repaired", "warned")
    assert sum(row[-1] for row in classes) == len(records)
    assert place == [(example["split"], example["shard"], example["position"])]
    hashes = Counter(row["xxh3"] for row in records)
    assert {row[0] for row in twice} == {found for found, number in hashes.items() if number > 1}
    assert {row[:2] for row in sizes} == {(row["split"], row["format"]) for row in records}
