"""Asking finished data sets: in SQL (``dataprep.sql``), and for a table of their labels."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from dataprep.api.option_types import StrPath
from dataprep.api.places import located
from dataprep.sealed.set import SealedSet
from dataprep.system.messages import printable

if TYPE_CHECKING:
    import pyarrow as pa


def sql(out: StrPath | Mapping[str, StrPath], query: str) -> pa.Table:
    """Ask a finished data set, or several, in SQL: ``select split, count(*) from records …``.

    The SQL is DuckDB's; it reads the tables of records, and reaches no other file.

    Args:
        out: the directory of a data set, whose ``records.parquet`` is the table ``records``; of
            several by name, ``{"a": "OUT", "b": "OUT2"}``, the tables have these names.
        query: one that selects.

    Returns:
        A table of Arrow: it has ``to_pylist`` and ``to_pandas``.

    Raises:
        UsageError: it does not select, or it is wrong; or the name of a table cannot be one.
        DatasetError: there is no intact manifest, or table of records.
    """
    from dataprep.tables.questions import ask

    places = out if isinstance(out, Mapping) else {"records": out}
    paths = {name: located(place) for name, place in places.items()}
    tables = {name: SealedSet.read(path).manifest.records_table for name, path in paths.items()}
    return ask({name: (path, tables[name]) for name, path in paths.items()}, query)


# --- labels by split, as papers have them: images, percent, patients ---

_PATIENT: Final = ("patient_id", "patient")
_LATEX: Final = {
    **{each: f"\\{each}" for each in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "\\": r"\textbackslash{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
}
_MARKDOWN: Final = {each: f"\\{each}" for each in "\\|`*_[]<>"}


def label_table(out: StrPath, format_: str) -> Iterator[str]:
    """Lines of the table; the last row is of all images.

    Args:
        format_: ``markdown``, ``csv`` or ``latex``.

    Raises:
        DatasetError: there is no intact data set.
    """
    from dataprep.tables.questions import labels_by_split

    out = located(out)
    manifest = SealedSet.read(out).manifest
    known = {name for name, _ in manifest.examples.attributes}
    patient = next((name for name in _PATIENT if name in known), None)
    found = labels_by_split(out, manifest.records_table, patient)
    counts = {(split, label): (images, patients) for split, label, images, patients in found}
    splits = [split for split in manifest.splits if (split, None) in counts]
    rows: list[tuple[str, int | None]] = [
        (name or identifier, number) for number, (identifier, name) in enumerate(manifest.classes)
    ]
    if any(label == -1 for _, label in counts):
        rows.append(("no label", -1))
    rows.append(("total", None))
    every = [[counts.get((split, label), (0, 0)) for split in splits] for _, label in rows]
    totals = [counts[split, None][0] for split in splits]
    titles = ["label"]
    for split in splits:
        titles += [f"{split} n", f"{split} %"] + [f"{split} patients"] * (patient is not None)
    lines = [titles]
    for (name, _), cells in zip(rows, every, strict=True):
        lines.append([name])
        for (images, patients), total in zip(cells, totals, strict=True):
            lines[-1] += [str(images), f"{100 * images / total:.1f}"]
            lines[-1] += [str(patients)] * (patient is not None)
    return _PRINTED[format_](lines)


def _csv(lines: Sequence[Sequence[str]]) -> Iterator[str]:
    for line in lines:
        text = io.StringIO()
        csv.writer(text, lineterminator="").writerow(line)
        yield text.getvalue()


def _markdown(lines: Sequence[Sequence[str]]) -> Iterator[str]:
    for number, line in enumerate(lines):
        yield f"| {' | '.join(_escaped(cell, _MARKDOWN) for cell in line)} |"
        if number == 0:
            yield f"| --- |{' ---: |' * (len(line) - 1)}"


def _latex(lines: Sequence[Sequence[str]]) -> Iterator[str]:
    yield rf"\begin{{tabular}}{{l{'r' * (len(lines[0]) - 1)}}}"
    yield r"\hline"
    for number, line in enumerate(lines):
        yield " & ".join(_escaped(cell, _LATEX) for cell in line) + r" \\"
        if number in (0, len(lines) - 2, len(lines) - 1):
            yield r"\hline"
    yield r"\end{tabular}"


def _escaped(text: str, escapes: dict[str, str]) -> str:
    return "".join(escapes.get(each, each) for each in printable(text))


_PRINTED: Final = {"csv": _csv, "markdown": _markdown, "latex": _latex}
