"""The Oxford-IIIT Pet data set (Parkhi et al., 2012) for dataprep: ``dataprep pets``.

The raw directory is what https://www.robots.ox.ac.uk/~vgg/data/pets/ publishes::

    images/ or images.tar.gz    Abyssinian_1.jpg ... yorkshire_terrier_99.jpg
    annotations/trainval.txt    Abyssinian_100 1 1 1
    annotations/test.txt
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

from dataprep.datasets import (
    Cut,
    Dataset,
    Field,
    Found,
    Row,
    Scanned,
    ScanUnit,
    Unmatched,
    list_container,
    option,
    parse_share,
    stat_fingerprint,
    wanted_splits,
)
from dataprep.errors import SourceError
from dataprep.system.messages import counted, printable
from typing_extensions import override

from dataprep_pets.lists import BREEDS, LISTS, Entry, read_lists

_FORMS = ("images", "images.tar", "images.tar.gz", "images.zip")
_SCAN_RULES = 1  # raise it whenever the same raw data would scan differently


@dataclass(frozen=True)
class PetsOptions:
    """What the user says of the raw data."""

    validation_fraction: Fraction = option(
        "Share of trainval.txt that becomes the validation split.",
        Fraction(0),
        metavar="SHARE",
        parse=parse_share,
    )


class Pets(Dataset):
    """``dataprep pets``."""

    name: ClassVar[str] = "pets"
    summary: ClassVar[str] = """Prepare the Oxford-IIIT Pet data set, 37 breeds of cats and dogs.

    The raw directory holds images/ (or images.tar, images.tar.gz, images.zip) and annotations/.
    """
    Options: ClassVar[type[PetsOptions]] = PetsOptions
    options: PetsOptions

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        share = self.options.validation_fraction
        self._cut = Cut(0, (("validation", share),), "train")
        self._splits = ("train", "validation", "test") if share else ("train", "test")

    @override
    def find(self, raw: Path, splits: Sequence[str] | None) -> Found:
        """One unit: the folder or archive of all images."""
        wanted = wanted_splits(self._splits, splits)
        there = [form for form in _FORMS if (raw / form).exists()]
        if len(there) != 1:
            raise SourceError(
                f"{printable(str(raw))} has {' and '.join(there) or 'no images'}; expected one of "
                f"{', '.join(_FORMS)}; "
                f"{'move all but one of them away' if there else 'check --raw'}"
            )
        listed = counted(len(read_lists(raw)), "image")
        unit = ScanUnit(name="images", container=there[0])
        return Found(
            description=(f"images: {there[0]}", f"lists: {listed}"),
            units=(unit,),
            splits=wanted,
            classes=tuple((breed, breed.replace("_", " ")) for breed in BREEDS),
            fields=(Field("species", "text"),),
        )

    @override
    def scan(self, raw: Path, found: Found, unit: ScanUnit) -> Scanned:
        """The rows of every split, whichever were asked for; nothing is unpacked."""
        entries = read_lists(raw)
        listing = list_container(raw, unit.container, restarts_name=unit.restarts_name)
        rows: dict[str, list[Row]] = {split: [] for split in self._splits}
        unmatched: list[Unmatched] = []
        for image in listing.images:
            if (entry := entries.get(image.name)) is None:
                unmatched.append(Unmatched("unlisted", image.name, unit.container))
                continue
            row = Row(
                key=image.name,
                container=image.container,
                offset=image.offset,
                size=image.size,
                modified=image.modified,
                labels=(entry.label,),
                fields={"species": entry.species},
                packing=image.packing,
            )
            rows[self._split_of(image.name, entry)].append(row)
        for name in sorted(entries.keys() - {image.name for image in listing.images}):
            entry = entries[name]
            unmatched.append(Unmatched("missing", name, entry.list, self._split_of(name, entry)))
        return Scanned(rows, listing.ignored, unmatched, restarts=listing.restarts)

    @override
    def fingerprint(self, raw: Path, unit: ScanUnit) -> str:
        """Size and time of the images' container and of both lists: all that `scan` reads."""
        read = (unit.container, *LISTS.values())
        return json.dumps([_SCAN_RULES, *(stat_fingerprint(raw, path) for path in read)])

    def _split_of(self, name: str, entry: Entry) -> str:
        return "test" if entry.list == LISTS["test"] else self._cut.split_of(name)
