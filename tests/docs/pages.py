"""The pages of the documentation, and where in them something is said."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
DOCS = ROOT / "docs"
PAGES = [README, ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md"))]


def said(pattern: str, *pages: Path, section: str = "") -> Iterator[tuple[str, re.Match[str]]]:
    """Each match, and the file and line that it is in, for the message of a failure.

    Args:
        pattern: may match over several lines, with `.`, `^` and `$` for one of them.
        pages: in which; without any, all.
        section: only below a heading that begins so, up to the next of its level.
    """
    for page in pages or PAGES:
        text = page.read_text(encoding="utf-8")
        start, end = 0, len(text)
        if section:
            start = text.index(f"\n{section}") + 1
            level = section.partition(" ")[0]
            end = text.find(f"\n{level} ", start)
            end = len(text) if end < 0 else end
        for match in re.compile(pattern, re.MULTILINE).finditer(text, start, end):
            line = text.count("\n", 0, match.start()) + 1
            yield f"{page.relative_to(ROOT)}:{line}", match
