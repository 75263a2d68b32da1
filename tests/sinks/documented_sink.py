"""The sink of docs/sinks.md, as a module: its classes can be pickled and broken."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "sinks.md"
SOURCE, TESTS = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)

exec(SOURCE, globals())
