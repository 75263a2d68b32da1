"""The one way this project writes JSON files: equal values are equal bytes."""

from __future__ import annotations

import json


def to_json(value: object) -> bytes:
    """``value`` as JSON, keys sorted, one item a line, with a newline at the end."""
    return (json.dumps(value, indent=1, sort_keys=True) + "\n").encode()
