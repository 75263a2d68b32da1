"""What directories and archives hold, before it has labels."""

from __future__ import annotations

from dataclasses import dataclass

from dataprep.index import Ignored


@dataclass(frozen=True, slots=True)
class StoredImage:
    """An image's file name and where its bytes are; the fields mean what they do in `Row`."""

    name: str
    container: str
    offset: int
    size: int
    modified: int


@dataclass(frozen=True, slots=True)
class Listing:
    """The images of one directory or archive, in the order they were met, and what is not one."""

    images: list[StoredImage]
    ignored: list[Ignored]
