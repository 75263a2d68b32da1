"""The lists of the Oxford-IIIT Pet data set: one image a line, with its breed and species."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from dataprep.errors import SourceError
from dataprep.system.messages import printable, unreadable

LISTS: Final = {"train": "annotations/trainval.txt", "test": "annotations/test.txt"}
"""The published lists, by split."""

# A breed's place, from 1, is its class in the lists.
BREEDS: Final = (
    *("Abyssinian", "american_bulldog", "american_pit_bull_terrier", "basset_hound", "beagle"),
    *("Bengal", "Birman", "Bombay", "boxer", "British_Shorthair", "chihuahua", "Egyptian_Mau"),
    *("english_cocker_spaniel", "english_setter", "german_shorthaired", "great_pyrenees"),
    *("havanese", "japanese_chin", "keeshond", "leonberger", "Maine_Coon", "miniature_pinscher"),
    *("newfoundland", "Persian", "pomeranian", "pug", "Ragdoll", "Russian_Blue", "saint_bernard"),
    *("samoyed", "scottish_terrier", "shiba_inu", "Siamese", "Sphynx"),
    *("staffordshire_bull_terrier", "wheaten_terrier", "yorkshire_terrier"),
)
_LABELS: Final = {breed: label for label, breed in enumerate(BREEDS)}
_SPECIES: Final = {"1": "cat", "2": "dog"}


class Entry(NamedTuple):
    """What the lists say of an image."""

    list: str
    label: int
    species: str


def read_lists(raw: Path) -> dict[str, Entry]:
    """Every image of both lists by file name, ``Abyssinian_100.jpg``.

    Raises:
        SourceError: a list is missing, wrong, or has an image that was listed before.
    """
    entries: dict[str, Entry] = {}
    for list_name in LISTS.values():
        for place, line in _lines(raw, list_name):
            # Abyssinian_100 1 1 1: the name, the breed, the species, the breed of that species.
            name, *numbers = line.split()
            label = _LABELS.get(name.rpartition("_")[0])
            if (
                label is None
                or len(numbers) != 3
                or numbers[0] != str(label + 1)
                or numbers[1] not in _SPECIES
            ):
                raise SourceError(
                    f"{place} is {printable(line[:60])!r}; expected a line such as "
                    "Abyssinian_100 1 1 1, with the breed's number; download the list again"
                )
            if f"{name}.jpg" in entries:
                raise SourceError(
                    f"{place} lists {printable(name)} a second time; expected each image once, in "
                    "one of the lists; download the lists again"
                )
            entries[f"{name}.jpg"] = Entry(list_name, label, _SPECIES[numbers[1]])
    return entries


def _lines(raw: Path, list_name: str) -> Iterator[tuple[str, str]]:
    try:
        text = (raw / list_name).read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        if (raw / "annotations.tar.gz").exists():
            raise SourceError(
                f"no {list_name}, but annotations.tar.gz; expected the lists unpacked; unpack it "
                "there: tar -xzf annotations.tar.gz"
            ) from error
        raise unreadable(list_name, error) from error
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip() and not line.startswith("#"):
            yield f"line {number} of {list_name}", line
