"""``functions.pyi``: the calls whose signatures are made of declarations, as checkers read them."""

from __future__ import annotations

import inspect
import re
import textwrap

from dataprep.api.explicit import NAMES, function

_HEAD = '''"""Made of the declarations of options, by ``python -m tests.regenerate_docs``."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Literal

from dataprep.api.progress import Tell
from dataprep.options import StrPath
from dataprep.sealed.set import SealedSet
'''


def stub() -> str:
    """The module."""
    return _HEAD + "".join(map(_declared, NAMES))


def _declared(name: str) -> str:
    call = function(name)
    lines: list[str] = []
    starred = False
    for each in inspect.signature(call).parameters.values():
        if each.kind is each.KEYWORD_ONLY and not starred:
            lines += ["*"] * (not any(line.startswith("*") for line in lines))
            starred = True
        text = f"{each.name}: {each.annotation}"
        text = f"*{text}" if each.kind is each.VAR_POSITIONAL else text
        lines.append(text if each.default is each.empty else f"{text} = {each.default!r}")
    returns = inspect.signature(call).return_annotation
    said = textwrap.indent(f'"""{inspect.getdoc(call)}\n"""', "    ")
    said = re.sub(r"^ +$", "", said, flags=re.MULTILINE)
    inner = "".join(f"    {line},\n" for line in lines)
    return f"\ndef {name}(\n{inner}) -> {returns}:\n{said}\n"
