"""Documents as somebody writes them who forges their hashes as well."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

Document = dict[str, Any]


def rehashed(document: Any) -> bytes:
    """A document's file with the right hash of itself, whatever else is wrong with it."""
    if isinstance(document, dict):
        document.setdefault("sha256", "")
        bare = {name: value for name, value in document.items() if name != "sha256"}
        document["sha256"] = hashlib.sha256(_file(bare)).hexdigest()
    return _file(document)


def _file(document: Any) -> bytes:
    return json.dumps(document, indent=1).encode() + b"\n"


def forge(path: Path, change: Callable[[Document], object]) -> None:
    """Change something in the file of a document, which keeps a right hash."""
    document = json.loads(path.read_bytes())
    change(document)
    path.write_bytes(rehashed(document))
