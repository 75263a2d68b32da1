"""docs/datasets.md has every data set, and docs/plugins.md quotes what is tested."""

from __future__ import annotations

from dataprep.datasets.chestxray14.dataset import FIELDS, ChestXray14
from dataprep.datasets.chestxray14.lists import FINDINGS
from dataprep.options import options_of
from dataprep.plugins import DATASETS, OUR_PACKAGE, installed, package_of
from tests.docs.pages import DOCS, ROOT, said

PAGE = DOCS / "datasets.md"
SECTION = "## ChestX-ray14"


def test_every_data_set_is_in_the_table() -> None:
    for name, point in installed(DATASETS).items():
        if package_of(point) == OUR_PACKAGE:
            assert list(said(rf"^\| `{name}` \|", PAGE)), f"docs/datasets.md: no row for {name}"


def test_what_is_quoted_is_what_is_tested() -> None:
    page = DOCS / "plugins.md"
    quoted = list(said(r"<!-- from: ([^\n]+) -->\n```\w+\n([\s\S]*?)```", page))
    assert len(quoted) == len(list(said("<!-- from:", page))) == 2
    for place, quote in quoted:
        assert quote[2] in (ROOT / quote[1]).read_text("utf-8"), f"{place}: {quote[1]} has changed"


def test_chestxray14_is_explained() -> None:
    ((place, block),) = said(r"<!-- findings -->\n```\n([\s\S]*?)```", PAGE, section=SECTION)
    assert tuple(block[1].split()) == FINDINGS, place
    for option in options_of(ChestXray14.Options):
        assert list(said(f"`--{option.name}", PAGE, section=SECTION)), f"{place}: no {option.name}"
    for attribute in FIELDS[2:]:  # boxes and what they show have no rows
        row = said(rf"\| `{attribute.name}` \|", PAGE, section=SECTION)
        assert list(row), f"{place}: no row for {attribute.name}"
