"""What the cells of a list's column of labels say."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from functools import lru_cache
from typing import Final
from unicodedata import normalize

from dataprep.datasets.folder.options import FolderOptions
from dataprep.datasets.lists import ClassList
from dataprep.system.messages import some_of

POINT: Final = r"^(-?[0-9]+)\.0$"
"""2 of 2.0, which is how a table program writes whole numbers of a column with gaps."""

_CELLS: Final = 1 << 17  # distinct cells that are remembered


class Labels:
    """Reads cells.

    Args:
        known: the only classes there may be; None if any may.
        typed: whether cells are JSON.
        optional: whether a row may have none, since its image may have others.

    Attributes:
        spelled: how the list spells each label that it has.
        of: the identifiers of the classes in a cell.
    """

    def __init__(
        self, options: FolderOptions, known: ClassList | None, *, typed: bool, optional: bool
    ) -> None:
        self._separator, self._none = options.label_separator, options.no_label
        self._known, self._typed, self._optional = known, typed, optional
        self._forms = {normalize("NFC", name): name for name in (known.indices if known else ())}
        self.spelled: dict[str, set[str]] = {}
        self.of = lru_cache(_CELLS)(self._of)

    def _of(self, cell: str) -> tuple[str, ...]:
        """The identifiers of the classes in a cell, sorted.

        Raises:
            ValueError: it has none, or one that there may not be.
        """
        separator, none = self._separator, self._none
        value = json.loads(cell) if cell and self._typed else cell
        value = self._list_of(value) if isinstance(value, str) else value
        if isinstance(value, list) and not separator:
            raise ValueError(
                "a list of labels, expected one label; with --label_separator, whatever it is, "
                "there may be several"
            )
        if not isinstance(value, list):
            text = _text(value)
            value = text.split(separator) if separator and text else [] if separator else [value]
        labels = [self._class_of(label) for label in value]
        if (none and labels == [none]) or (self._optional and labels == [""]):
            return ()
        if not all(labels):
            advice = "" if separator else "; --label_separator allows images without labels"
            raise ValueError(f"empty label, expected a class{advice}")
        if none in labels:
            raise ValueError(f"{none}, which means none, beside others")
        known = self._known
        if known and (unknown := [label for label in labels if label not in known.indices]):
            raise ValueError(
                f"unknown label {some_of(unknown)}, expected the classes of {known.place}"
            )
        if len({normalize("NFC", label) for label in labels}) < len(labels):
            raise ValueError("a label twice in one cell, expected names of classes, each once")
        return tuple(sorted(labels))

    def _list_of(self, cell: str) -> object:
        """Of text in brackets the list, in JSON or as Python writes it; else the text."""
        text = cell.strip()
        if re.fullmatch(r"\[.*\]", text, re.DOTALL) and not self._names(text):
            for form in (text, text.replace("'", '"')):
                with suppress(ValueError, RecursionError):
                    return json.loads(form)
        return cell

    def _names(self, text: str) -> bool:
        """Whether an option names a label, spelled so."""
        known = self._known is not None and text in self._known.indices
        return known or text == self._none

    def _class_of(self, label: object) -> str:
        """A whole number without a point, as Parquet has it, if no option names it with one."""
        text = _text(label)
        name = text if self._names(text) else re.sub(POINT, r"\1", text)
        if self._known is not None:
            name = name.strip("/")  # as the list of classes has them
            named = name in self._known.indices
            name = name if named else self._forms.get(normalize("NFC", name), name)
        elif self._optional:  # the index tells the forms of labels apart, not those of boxes
            name = normalize("NFC", name)
        if name and name != self._none:
            self.spelled.setdefault(name, set()).add(text if self._separator else str(label))
        return name


def _text(cell: object) -> str:
    """A label as text: whole numbers without a point, nothing as empty."""
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)  # what a table program makes of whole numbers
    if isinstance(cell, bool) or cell != cell:  # which is no number
        cell = str(cell).lower()
    if cell is not None and not isinstance(cell, str | int):
        raise ValueError(f"a {type(cell).__name__}, expected text or a whole number")
    return "" if cell is None else str(cell).strip()
