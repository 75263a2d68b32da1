"""The lists that come with ChestX-ray14: where they are, and their lines."""

from __future__ import annotations

import csv
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from dataprep.errors import SourceError
from dataprep.hashing import file_sha256
from dataprep.sources.chestxray14.places import likely
from dataprep.wording import printable, unreadable

# Earlier names win: the second release corrected ages and follow-up numbers.
LABELS: Final = ("Data_Entry_2017_v2020.csv", "Data_Entry_2017.csv")
TRAIN_VALIDATION: Final = ("train_val_list.txt",)
TEST: Final = ("test_list.txt",)
BOXES: Final = ("BBox_List_2017.csv",)

_UTF_16: Final = (b"\xff\xfe", b"\xfe\xff")  # its byte order marks, which UTF-8 never has
_START: Final = 256  # bytes in which text in UTF-16 shows, mark or not


@dataclass(frozen=True, slots=True)
class ListFile:
    """A list as it was found, so that what was read of it can be kept while it stays the same.

    Attributes:
        path: where it is.
        place: its file name; what messages call it.
        size: in bytes.
        modified: its modification time in nanoseconds since 1970.
    """

    path: Path
    place: str
    size: int
    modified: int

    @property
    def witness(self) -> tuple[str, str]:
        """What tells that the list is another one: its name and the SHA-256 of its content.

        Raises:
            SourceError: the file cannot be read.
        """
        return self.place, _digest(self)


@dataclass(frozen=True, slots=True)
class Lists:
    """The lists of one run.

    Attributes:
        labels: the label CSV.
        sides: the official lists, of training and validation and of test; None if they are not
            wanted.
        boxes: the box list; None if there is none.
        passed_over: the older label CSV, if both are there; empty otherwise.
    """

    labels: ListFile
    sides: tuple[ListFile, ListFile] | None
    boxes: ListFile | None
    passed_over: str = ""

    @property
    def witnesses(self) -> list[tuple[str, str] | None]:
        """What tells that one of them is another one; in a fixed order.

        Raises:
            SourceError: one cannot be read.
        """
        files = (self.labels, *(self.sides or (None, None)), self.boxes)
        return [file and file.witness for file in files]


def find_lists(raw: Path, options: Mapping[str, str], official: bool) -> Lists:
    """Find the lists that the options name, or else those in the raw directory.

    Args:
        raw: the raw directory.
        options: the data set's options; of a list, its absolute path.
        official: whether the official split lists are wanted.

    Raises:
        SourceError: a list that is needed is not there, or one cannot be looked at.
    """
    labels = _required(raw, options, "labels", LABELS)
    sides = None
    if official:
        sides = (
            _required(raw, options, "train_val_list", TRAIN_VALIDATION),
            _required(raw, options, "test_list", TEST),
        )
    older = raw / LABELS[1]
    both = "labels" not in options and labels.place != older.name and older.exists()
    boxes = _find(raw, options, "bbox_csv", BOXES)
    return Lists(labels, sides, boxes, older.name if both else "")


def csv_rows(file: ListFile) -> Iterator[tuple[int, list[str]]]:
    """The rows of a CSV that are not blank, each with the number of its (last) line.

    A byte order mark and any line ends are taken as they come.

    Raises:
        SourceError: the file cannot be read, is UTF-16 or is no CSV.
    """
    _refuse_utf_16(file)
    try:
        with open(file.path, encoding="utf-8-sig", errors="surrogateescape", newline="") as stream:
            reader = csv.reader(stream, strict=True)
            try:
                for fields in reader:
                    if any(map(str.strip, fields)):
                        yield reader.line_num, fields
            except csv.Error as error:
                raise SourceError(
                    f"line {reader.line_num} of {printable(file.place)} is no CSV ({error}); "
                    "expected fields separated by commas; download the list again"
                ) from error
    except OSError as error:
        raise unreadable(str(file.path), error) from error


def names_of(file: ListFile) -> list[str]:
    """The image names of a split list, one a line, in the list's order.

    Raises:
        SourceError: the file cannot be read, is UTF-16 or empty, or has a line that is no file
            name.
    """
    _refuse_utf_16(file)
    try:
        text = file.path.read_text(encoding="utf-8-sig", errors="surrogateescape")
    except OSError as error:
        raise unreadable(str(file.path), error) from error
    lines = [line.strip() for line in text.split("\n")]
    for number, line in enumerate(lines, 1):
        if "/" in line or len(line.split()) > 1:
            raise SourceError(
                f"line {number} of {printable(file.place)} is {printable(line[:40])!r}; expected "
                "only an image's file name, such as 00000001_000.png; correct the list"
            )
    names = list(filter(None, lines))
    if not names:
        raise SourceError(
            f"{printable(file.place)} is empty; expected an image's file name a line, such as "
            "00000001_000.png; download the list again, or use --split random-by-patient"
        )
    return names


@lru_cache(maxsize=16)  # every unit's fingerprint asks for the same few lists
def _digest(file: ListFile) -> str:
    try:
        return file_sha256(file.path)
    except OSError as error:
        raise unreadable(str(file.path), error) from error


def _refuse_utf_16(file: ListFile) -> None:
    try:
        with open(file.path, "rb") as stream:
            start = stream.read(_START)
    except OSError as error:
        raise unreadable(str(file.path), error) from error
    if start.startswith(_UTF_16) or b"\0" in start:
        raise SourceError(f"{printable(file.place)} is UTF-16; save it as UTF-8")


def _required(
    raw: Path, options: Mapping[str, str], option: str, names: tuple[str, ...]
) -> ListFile:
    found = _find(raw, options, option, names)
    if found:
        return found
    ways = [f"copy it there, or name it with --{option}"]
    ways += [f"did you mean --raw_data_dir {printable(right)} ?" for right in likely(raw, names)]
    if option != "labels":
        ways[0] += ", or use --split random-by-patient"
    raise SourceError(
        f"no {' or '.join(names)} in {printable(str(raw))}; expected the list that comes with the "
        f"images; {ways[:2][-1]}"
    )


def _find(
    raw: Path, options: Mapping[str, str], option: str, names: tuple[str, ...]
) -> ListFile | None:
    paths = [Path(options[option])] if option in options else [raw / name for name in names]
    for path in paths:
        try:
            # A link that leads nowhere is there, and fails in stat with its name.
            if option not in options and not path.is_symlink() and not path.exists():
                continue
            status = path.stat()
        except OSError as error:
            raise unreadable(str(path), error) from error
        if not stat.S_ISREG(status.st_mode):
            raise SourceError(
                f"{printable(str(path))} is not a regular file; expected the list itself; name it "
                f"with --{option}"
            )
        return ListFile(path, path.name, status.st_size, status.st_mtime_ns)
    return None
