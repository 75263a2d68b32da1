"""What a scan finds, a row an image: where its bytes are, and what it shows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

import msgspec

if TYPE_CHECKING:
    import pyarrow as pa

Packing = tuple[int | str, ...]


class Row(msgspec.Struct, frozen=True):
    """Where one example's bytes are and what they show; of all types, the soonest made.

    Attributes:
        key: the example's name within its split, unique there, the same for every raw
            layout: ``n01440764/n01440764_10026.JPEG``, ``00000001_000.png``. It is data, never
            a path.
        container: the file to read, relative to the raw directory: the image itself or
            the archive that holds it.
        offset: where in the container the image's bytes start; of a gzip archive, in what it
            unpacks to. 0 means that the container is the image itself.
        size: how many bytes the image has, unpacked.
        modified: the modification time, in whole seconds since 1970, of the file in a
            tree or of the archive member.
        labels: 0-based indices into the data set's class list, ascending; exactly one where
            classes exclude each other.
        fields: what else is said of the example, by the names of the data set's fields; what is
            missing is left out.
        group: who or what it belongs to: two examples of one group are never in two splits.
            Empty where there are no groups, and in the rows that workers get.
        packing: how the bytes lie in the container; empty if as they are. ``("stored", CRC-32)``
            or ``("deflate", compressed size, CRC-32)`` in a zip archive; ``("gzip", name)`` in a
            gzip archive, whose restart points are in the index under that name; ``("recordio",
            framed size)`` of a record in several parts, 8 bytes before the offset; ``("copy",
            name)`` of an image that the scan has copied into that file of the index.
        container_mtime: the modification time of the container when it was scanned, in nanoseconds
            since 1970: reading from it refuses what was changed since. 0 if nobody looked.
        drawn_on: width and height of the picture that the fields are of, which may be the
            image turned upright, or in another size; empty: they are of the image as it is stored.
        frame: of one of several frames in the file, its number, from 1, and how many there are.
        alias: of an image of which a list tells the rest, what else the list may call it than by
            the key; empty if nothing.
    """

    key: str
    container: str
    offset: int
    size: int
    modified: int
    labels: tuple[int, ...]
    fields: Mapping[str, Any] = msgspec.field(default_factory=dict)
    group: str = ""
    packing: Packing = ()
    container_mtime: int = 0
    drawn_on: tuple[int, ...] = ()
    frame: tuple[int, ...] = ()
    alias: str = ""


@dataclass(frozen=True, slots=True)
class Ignored:
    """Something in the raw data that is not an image and was left out, and why."""

    container: str
    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Unmatched:
    """An image that is listed but not there (``missing``), or there but not listed.

    Attributes:
        kind: which of the two.
        name: the image's name.
        where: the list that names it, or the directory or archive that holds it.
        split: the split it would belong to; empty if nobody knows.
    """

    kind: Literal["missing", "unlisted"]
    name: str
    where: str
    split: str = ""


@dataclass(frozen=True, slots=True)
class Scanned:
    """What one scan unit holds.

    Attributes:
        rows: by split, in any order; empty: `Found.cut` decides.
        ignored: what is no image.
        unmatched: images that are not listed, or listed files that are not there.
        classes: what the rows' labels are indices into, if only scanning tells which classes
            there are; None if they are indices into `Found.classes`.
        counts: how often something happened that the user should know of, by what happened:
            ``{"age out of range": 16}``.
        restarts: the restart points of a gzip archive, as bytes for a file of the index; empty if
            the unit is none.
        members: images whose labels, split and so on are in a list, which another unit scans.
        masks: masks that are pictures, each with the split, if that is known; the alias of one is
            the path of its image, without suffix.
        tables: rows of the table ``index`` (`dataprep_schemas.tables`) as they are, for units
            that are tables themselves; read once, so it may be an iterator. Missing columns are
            null.
        copy: copies images that cannot be read where they lie into a file of the index, and returns
            what the unit holds, instead of all this; None: there are none.
    """

    rows: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    ignored: Sequence[Ignored] = ()
    unmatched: Sequence[Unmatched] = ()
    classes: Sequence[str] | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    restarts: bytes = b""
    members: Sequence[Row] = ()
    masks: Sequence[tuple[str, Row]] = ()
    tables: Iterable[pa.Table] = ()
    copy: Callable[[BinaryIO], Scanned] | None = None
