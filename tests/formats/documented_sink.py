"""The sink of docs/plugins.md, as a module: its classes can be pickled and broken."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "plugins.md"
SECTION = PAGE.read_text(encoding="utf-8").partition("\n## A data set")[0]
SOURCE, TESTS = re.findall(r"```python\n(.*?)```", SECTION, re.DOTALL)

exec(SOURCE, globals())
