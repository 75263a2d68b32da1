"""What pages point to is there: files, names, tests."""

from __future__ import annotations

import pkgutil
from contextlib import suppress

from tests.docs.pages import DOCS, README, ROOT, said


def exists(name: str) -> bool:
    """Whether a dotted name stands for something."""
    with suppress(ImportError, AttributeError):
        return bool(pkgutil.resolve_name(name))
    return False


def test_links_lead_to_files() -> None:
    for place, link in said(r"\]\((?!http)([^)#]+)"):
        source = ROOT / place.rpartition(":")[0]
        assert (source.parent / link[1]).exists(), f"{place}: no file {link[1]}"


def test_names_of_the_package_can_be_imported() -> None:
    for place, found in said(r"`(dataprep\.[\w.]+)", README, *DOCS.glob("*.md")):
        assert exists(found[1]), f"{place}: no {found[1]}"


def test_every_promise_of_the_security_page_has_its_test() -> None:
    named = list(said(r"`(tests/[\w/.]+)(?:::(\w+))?`", DOCS / "security.md"))
    assert len(named) > 20
    for place, found in named:
        path, name = ROOT / found[1], found[2]
        assert path.exists(), f"{place}: no file {found[1]}"
        assert not name or f"def {name}(" in path.read_text("utf-8"), f"{place}: no test {name}"


def test_the_changelog_has_a_place_for_what_is_new() -> None:
    assert list(said("^## Unreleased", ROOT / "CHANGELOG.md")), "CHANGELOG.md: no '## Unreleased'"
