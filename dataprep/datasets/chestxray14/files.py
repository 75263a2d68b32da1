"""The lists that come with ChestX-ray14: where they are, and their text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dataprep.datasets.chestxray14.places import likely
from dataprep.errors import SourceError
from dataprep.system.messages import printable, unreadable
from dataprep.system.state_files import file_sha256

# Earlier names win: the second release corrected ages and follow-up numbers.
LABELS: Final = ("Data_Entry_2017_v2020.csv", "Data_Entry_2017.csv")
_UTF_16: Final = (b"\xff\xfe", b"\xfe\xff")  # its byte order marks, which UTF-8 never has
_START: Final = 256  # bytes in which text in UTF-16 shows, mark or not


@dataclass(frozen=True, slots=True)
class ListFile:
    """A list.

    Attributes:
        path: where it is.
    """

    path: Path

    @property
    def place(self) -> str:
        """Its file name: what messages call it."""
        return self.path.name

    def check(self) -> None:
        """Refuse what cannot be read, or is not UTF-8.

        Raises:
            SourceError: it is so.
        """
        try:
            with open(self.path, "rb") as file:
                start = file.read(_START)
        except OSError as error:
            raise unreadable(str(self.path), error) from error
        if start.startswith(_UTF_16) or b"\0" in start:
            raise self.wrong_encoding()

    def wrong_encoding(self) -> SourceError:
        """What to say if it is not UTF-8."""
        return SourceError(f"{printable(self.place)} is not UTF-8; save it as UTF-8")

    def witness(self) -> tuple[str, str]:
        """What tells that the list is another one: its name and the SHA-256 of its content.

        Raises:
            SourceError: the file cannot be read.
        """
        try:
            return self.place, file_sha256(self.path)
        except OSError as error:
            raise unreadable(str(self.path), error) from error


@dataclass(frozen=True, slots=True)
class Lists:
    """The lists of one run.

    Attributes:
        labels: the label CSV.
        sides: the official lists, of training and validation and of test; empty if they are not
            wanted.
        boxes: the box list; None if there is none.
        passed_over: the older label CSV, if both are there; empty otherwise.
    """

    labels: ListFile
    sides: tuple[ListFile, ...]
    boxes: ListFile | None
    passed_over: str = ""

    def witnesses(self) -> list[tuple[str, str] | None]:
        """What tells that one of them is another one.

        Raises:
            SourceError: one cannot be read.
        """
        files = (self.labels, *self.sides, self.boxes)
        return [file.witness() if file else None for file in files]


def find_lists(raw: Path, options: Mapping[str, str], official: bool) -> Lists:
    """Find the lists that the options name, or else those in the raw directory.

    Args:
        raw: the raw directory.
        options: the data set's options; of a list, its absolute path.
        official: whether the official split lists are wanted.

    Raises:
        SourceError: a list that is needed is not there, or one is no regular file.
    """
    labels = _required(raw, options, "labels", LABELS)
    names = ("train_val_list", "test_list") if official else ()
    sides = tuple(_required(raw, options, name, (f"{name}.txt",)) for name in names)
    older = raw / LABELS[1]
    both = "labels" not in options and labels.place != older.name and older.exists()
    boxes = _find(raw, options, "bbox_csv", ("BBox_List_2017.csv",))
    return Lists(labels, sides, boxes, older.name if both else "")


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
        if path.exists() and not path.is_file():  # a pipe could be read once only
            raise SourceError(
                f"{printable(str(path))} is not a regular file; expected the list itself; name it "
                f"with --{option}"
            )
        # A link that leads nowhere is there, and fails with its name when it is read.
        if option in options or path.is_symlink() or path.exists():
            return ListFile(path)
    return None
