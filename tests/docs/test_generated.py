"""Pages that are made from the program are what it makes today."""

from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path

import pytest

import dataprep
from tests.docs.pages import DOCS, ROOT
from tests.regenerate_docs import fields_of, pages, printed, promised

MADE = pages()


@pytest.mark.parametrize("page", MADE, ids=lambda page: page.name)
def test_a_page_made_from_the_program_is_up_to_date(page: Path) -> None:
    if page.suffix == ".1" and version("click").startswith("8.1."):
        pytest.skip("click before 8.2 lays a page of the manual out in another way")
    lines, expected = page.read_text("utf-8").splitlines(), MADE[page].splitlines()
    for number, (line, wanted) in enumerate(zip(lines, expected, strict=False), 1):
        place = f"{page.relative_to(ROOT)}:{number}"
        assert line == wanted, f"{place}: run python -m tests.regenerate_docs"
    assert len(lines) == len(expected), f"{page.name}: run python -m tests.regenerate_docs"


def test_what_is_promised_is_what_there_is() -> None:
    assert sorted(promised()) == sorted({*dataprep.__all__, "errors"} - {"__version__"})


@pytest.mark.parametrize("name", sorted({*dataprep.__all__} - {"__version__"}))
def test_a_public_name_is_explained(name: str) -> None:
    section = MADE[DOCS / "api.md"].partition(f"\n## dataprep.{name}\n")[2].partition("\n## ")[0]
    assert len(section) > 80, f"the docstring of dataprep.{name} says nothing"


@pytest.mark.parametrize(("title", "kind"), [*printed()])
def test_every_field_that_json_prints_is_described(title: str, kind: type) -> None:
    section = MADE[DOCS / "api.md"].partition(f"# {title}\n")[2].partition("\n#")[0]
    described = set(re.findall(r"^\* `(\w+)`: .", section, re.M))
    assert described == fields_of(kind).keys(), "see Attributes of its docstring"
