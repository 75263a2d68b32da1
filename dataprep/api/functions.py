"""Calls with every option in their signature; see `dataprep.api.explicit`.

``functions.pyi``, which type checkers and editors read instead, is made of the same declarations by
``python -m tests.regenerate_docs``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dataprep.api.explicit import NAMES, function


def __getattr__(name: str) -> Callable[..., Any]:
    if name not in NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return function(name)
