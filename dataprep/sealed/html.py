"""Finished data sets as notebooks show them: a table, and small pictures; nothing is fetched."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Sequence
from html import escape
from itertools import islice
from typing import TYPE_CHECKING, Final

from PIL import Image

from dataprep.errors import DataprepError
from dataprep.images.pillow import PILLOW_ERRORS
from dataprep.images.pixels import eight_bits
from dataprep.system.messages import printable

if TYPE_CHECKING:
    from dataprep.formats.example import Example

_SIDE: Final = 64  # pixels of a small picture
_SHOWN: Final = 5


def table(title: str, names: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of texts."""
    return _table(title, names, [[_safe(text) for text in row] for row in rows])


def examples_table(title: str, examples: Iterable[Example]) -> str:
    """The first few: a small picture, the key and the class of each; or why there is none."""
    rows: list[list[str]] = []
    try:
        for example in islice(examples, _SHOWN):
            name = example.class_name or example.synset
            rows.append(["", _safe(example.key), _safe(name)])
            rows[-1][0] = _picture(example)
    except (DataprepError, *PILLOW_ERRORS) as error:
        rows.append(["", _safe(str(error)), ""])
    return _table(title, ("", "key", "class"), rows)


def _picture(example: Example) -> str:
    picture = Image.fromarray(eight_bits(example.array()))
    picture.thumbnail((_SIDE, _SIDE))
    file = io.BytesIO()
    picture.save(file, "PNG")
    return f'<img src="data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}">'


def _safe(text: str) -> str:
    return escape(printable(text))


def _table(title: str, names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"<caption>{_safe(title)}</caption>", _row("th", names)]
    return f"<table>{''.join(lines + [_row('td', row) for row in rows])}</table>"


def _row(tag: str, cells: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{cell}</{tag}>' for cell in cells)}</tr>"
