"""The label CSV that a made-up ChestX-ray14 follows, given or made up."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from dataprep.errors import SourceError
from dataprep.synthesize.imagenet.plan import keyed_seed
from dataprep.system.messages import printable, unreadable

CSV_2017 = "Data_Entry_2017.csv"
CSV_2020 = "Data_Entry_2017_v2020.csv"

# Patient, picture. Names become file names, so that nothing else is let through.
_NAME = re.compile(r"[0-9]{8}_[0-9]{3}\.png", re.ASCII)
_PATIENT_DIGITS = 8


@dataclass(frozen=True)
class LabelTable:
    """A label CSV and what of it a picture depends on.

    Args:
        file_name: the published name of a CSV of this form.
        content: its bytes.
        images: base name and findings of each image, ``|`` between findings; by name.
    """

    file_name: str
    content: bytes
    images: tuple[tuple[str, str], ...]


def read_labels(path: Path) -> LabelTable:
    """Read a published label CSV, of either version.

    Args:
        path: ``.csv``, or ``.csv.gz``.

    Returns:
        All its rows; its bytes as they were before compression.

    Raises:
        SourceError: it cannot be read, or is not such a CSV.
    """
    content = read_document(path)
    return parse_labels(content, str(path))


def parse_labels(content: bytes, place: str) -> LabelTable:
    """Take a label CSV apart.

    Args:
        content: the CSV, uncompressed.
        place: what errors call it.

    Returns:
        All its rows.

    Raises:
        SourceError: it is not such a CSV.
    """
    rows = _rows(content, place)
    header = next(rows, (0, []))[1]
    if header[:2] != ["Image Index", "Finding Labels"]:
        raise SourceError(
            f"{printable(place)} does not begin with 'Image Index,Finding Labels'; "
            "give a Data_Entry_2017 CSV of ChestX-ray14"
        )
    findings: dict[str, str] = {}  # equal label sets share one string
    images = []
    for line, row in rows:
        if len(row) < 2 or not _NAME.fullmatch(row[0]):
            found = printable(row[0]) if row else "nothing"
            raise SourceError(
                f"line {line} of {printable(place)} begins with {found} where a name such as "
                "00000001_000.png was expected; mend or remove the line"
            )
        images.append((row[0], findings.setdefault(row[1], row[1])))
    images.sort()
    _refuse_repeated(images, place)
    # The older header has a comma at its end, and so one field more.
    return LabelTable(CSV_2017 if len(header) > 11 else CSV_2020, content, tuple(images))


def patient_of(name: str) -> str:
    """The patient's part of an image name: eight digits."""
    return name[:_PATIENT_DIGITS]


def picture_seed(seed: int, name: str) -> int:
    """The seed of one picture, from that of the set."""
    return keyed_seed(seed, "radiograph", name)


def read_document(path: Path) -> bytes:
    """The bytes of a file, out of its gzip where the name says so.

    Args:
        path: any file; ``.gz`` is decompressed.

    Returns:
        Its content.

    Raises:
        SourceError: it cannot be read or decompressed.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise unreadable(str(path), error) from error
    if path.suffix != ".gz":
        return content
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise SourceError(
            f"{printable(str(path))} is not a whole gzip file ({error}); fetch it again"
        ) from error


def _rows(content: bytes, place: str) -> Iterator[tuple[int, list[str]]]:
    """Line numbers and cells, without empty lines."""
    text = io.TextIOWrapper(io.BytesIO(content), encoding="utf-8-sig", newline="")
    reader = csv.reader(text, strict=True)
    try:
        for row in reader:
            if row:
                yield reader.line_num, row
    except (csv.Error, UnicodeDecodeError) as error:
        raise SourceError(
            f"line {reader.line_num + 1} of {printable(place)} is not CSV in UTF-8 ({error}); "
            "give a Data_Entry_2017 CSV of ChestX-ray14"
        ) from error


def _refuse_repeated(images: list[tuple[str, str]], place: str) -> None:
    if not images:
        raise SourceError(f"{printable(place)} lists no images; give one that does")
    for (name, _), (following, _) in pairwise(images):
        if name == following:
            raise SourceError(
                f"{printable(place)} lists {name} more than once; remove the repeated lines"
            )
