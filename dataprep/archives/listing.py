"""What directories and archives hold, before it has labels."""

from __future__ import annotations

from dataclasses import dataclass

from dataprep.index import Ignored, Packing


@dataclass(frozen=True, slots=True)
class StoredImage:
    """An image's path and where its bytes are; the other fields mean what they do in `Row`.

    Attributes:
        path: its name in the directory or archive, with forward slashes; data, never a path to
            open.
    """

    path: str
    container: str
    offset: int
    size: int
    modified: int
    packing: Packing = ()
    container_mtime: int = 0

    @property
    def name(self) -> str:
        """The last component of the path."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Listing:
    """The images of one directory or archive, in the order they were met, and what is not one.

    Attributes:
        restarts: the restart points of a gzip archive, for the index; empty if it is none.
    """

    images: list[StoredImage]
    ignored: list[Ignored]
    restarts: bytes = b""
