"""docs/architecture.md quotes the contract of the floors as pyproject.toml has it."""

from __future__ import annotations

import tomllib

from tests.docs.pages import DOCS, ROOT, said


def test_the_floors_are_those_of_the_contract() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    floors, *_ = settings["tool"]["importlinter"]["contracts"]
    ((place, block),) = said(r"```\n(dataprep\.cli\n[^`]*)```", DOCS / "architecture.md")
    assert block[1].splitlines() == floors["layers"], place


def test_every_room_is_in_the_table() -> None:
    rows = {row[1] for _, row in said(r"^\| `dataprep/(\w+)/` \|", DOCS / "architecture.md")}
    rooms = {path.parent.name for path in (ROOT / "dataprep").glob("*/__init__.py")}
    assert rows == rooms
