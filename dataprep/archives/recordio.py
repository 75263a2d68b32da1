r"""RecordIO, which MXNet's ``im2rec`` writes: its frames, and the images in it, in place.

In the file, a record is one part or several, each ``u32 magic | u32 (cflag << 29 | length) | data |
zeros up to a multiple of 4``. Where the data holds the magic at a multiple of 4, it is cut: the
magic itself is left out, and put back by the reader between two parts. So a reader that starts
anywhere finds the next record by looking for the magic. cflag is 0 for a record in one part,
otherwise 1 for the first, 2 for each in between and 3 for the last. Source: dmlc-core
include/dmlc/recordio.h and src/recordio.cc.

A record of an image is ``u32 flag | f32 label | u64 id | u64 id2``, little-endian, then, if flag is
not 0, so many float32 labels, and the image. Source: MXNet src/io/image_recordio.h.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np

from dataprep.archives.listing import StoredImage
from dataprep.archives.open_files import FileRange
from dataprep.archives.samples import HEAD, Sample, Value, is_image, opened
from dataprep.errors import SinkError
from dataprep.system.regular_files import read_regular

LENGTH_LIMIT: Final = 1 << 29  # a record must be shorter than this: its length has 29 bits
FRAMING: Final = 8 + 3
"""Bytes of the frame of a record in one part, at most."""
HEADER: Final = struct.Struct("<IfQQ")
"""Of a record of an image: flag, label, id, id2."""

PART_HEADER: Final = struct.Struct("<II")
_MAGIC_NUMBER = 0xCED7230A
MAGIC: Final = struct.pack("<I", _MAGIC_NUMBER)
_WHOLE, _FIRST, _MIDDLE, _LAST = range(4)
_CFLAG_SHIFT = 29
_IMAGE = "image"
_LABEL = "label"
LISTED: Final = "lst"
"""The field with the label that the list beside the file has."""


def frame(head: bytes, data: bytes) -> list[bytes]:
    """The pieces of one record, in order; the data is not copied where it holds no magic.

    Args:
        head: what stands before the data: a multiple of 4 bytes, without the magic.

    Raises:
        SinkError: it has 2**29 bytes or more.
    """
    size = len(head) + len(data)
    if size >= LENGTH_LIMIT:
        raise SinkError(f"{size} bytes; RecordIO holds less than {LENGTH_LIMIT} in a record")
    words = np.frombuffer(data, "<u4", count=len(data) // 4)  # ten times as fast as bytes.find
    cuts: list[int] = (np.flatnonzero(words == _MAGIC_NUMBER) * 4).tolist()
    if not cuts:
        return [PART_HEADER.pack(_MAGIC_NUMBER, size) + head, data, bytes(-size % 4)]
    pieces = _part(_FIRST, head + data[: cuts[0]])
    for start, end in pairwise(cuts):
        pieces += _part(_MIDDLE, data[start + 4 : end])
    return pieces + _part(_LAST, data[cuts[-1] + 4 :])


def _part(cflag: int, data: bytes) -> list[bytes]:
    header = PART_HEADER.pack(_MAGIC_NUMBER, cflag << _CFLAG_SHIFT | len(data))
    return [header, data, bytes(-len(data) % 4)]


def _read_part(header: bytes, *, first: bool) -> tuple[int, bool]:
    """The length of the data of a part, the first of its record or not; and whether more follow."""
    if len(header) < PART_HEADER.size:
        raise SinkError("the file ends within a part of a record")
    magic, word = PART_HEADER.unpack(header)
    cflag, length = word >> _CFLAG_SHIFT, word & (LENGTH_LIMIT - 1)
    if magic != _MAGIC_NUMBER or cflag not in ((_WHOLE, _FIRST) if first else (_MIDDLE, _LAST)):
        raise SinkError(f"a part of a record begins with {header.hex()}, not 0a23d7ce and its flag")
    return length, cflag in (_FIRST, _MIDDLE)


def unframe(data: bytes) -> bytes:
    """The inverse of `frame`.

    Raises:
        SinkError: the framing is damaged.
    """
    pieces: list[bytes] = []
    at, more = 0, True
    while more:
        length, more = _read_part(data[at : at + PART_HEADER.size], first=not pieces)
        at += PART_HEADER.size
        pieces.append(data[at : at + length])
        at += length + -length % 4
    if at != len(data):
        raise SinkError(f"a record of {at} bytes, expected {len(data)}")
    return MAGIC.join(pieces)


def frames(read: Callable[[int, int], bytes], size: int) -> Iterator[tuple[int, int, int]]:
    """Each record of a file: where it starts, where it ends, and how many bytes its data has.

    Args:
        read: reads so many bytes at an offset, or as many as there are.
        size: of the file.

    Raises:
        SinkError: something else is where a record should be.
    """
    at = 0
    while at < size:
        start, total, more = at, -len(MAGIC), True
        while more:
            length, more = _read_part(read(at, PART_HEADER.size), first=at == start)
            total += len(MAGIC) + length
            at += PART_HEADER.size + length + -length % 4
        yield start, at, total


def recordio_samples(raw: Path, container: str) -> Iterator[Sample]:
    """The images of a ``.rec`` file; ``label`` is a number, or a list where it has several.

    The key is what the ``.lst`` beside it says, and empty if there is none; its label is ``lst``;
    behind the records come its lines of which there is none. An image whose record has several
    parts does not lie in one piece: it is read with its frame. A record of nothing but numbers, as
    InsightFace has them, has no fields.

    Raises:
        SourceError: the file cannot be read, or is damaged.
    """
    with opened(raw, container, "RecordIO file of images") as source:
        lines = _lines((raw / container).with_suffix(".lst"))
        seen = set[int]()
        stream = FileRange(source, 0, source.size)
        for start, end, total in frames(stream.read_at, source.size):
            if end > source.size:
                raise SinkError(f"it ends within the record at byte {start}")
            at = start + PART_HEADER.size
            flag, label, number, _ = HEADER.unpack(stream.read_at(at, HEADER.size))
            head = HEADER.size + 4 * flag
            if head > total:
                raise SinkError(f"the record at byte {start} has {flag} labels in {total} bytes")
            several = struct.unpack(f"<{flag}f", stream.read_at(at + HEADER.size, 4 * flag))
            fields: dict[str, Value] = {_LABEL: _labels(several or (label,))}
            whole = end - at == total + -total % 4
            begin, packing = (at + head, ()) if whole else (at, ("recordio", end - start))
            place = container, begin, total - head, 0
            key, listed = _listed(lines.get(number, ""))
            seen.add(number)
            if lines:
                fields[LISTED] = listed
            elif head == total:
                fields.clear()
            image = StoredImage(key, *place, packing, source.mtime)
            known = is_image(stream.read_at(at + head, HEAD)) or not whole
            yield Sample(key, {_IMAGE: image} if known else {}, fields, [])
        for number in lines.keys() - seen:
            yield Sample(_listed(lines[number])[0], {}, {LISTED: None}, [])


def _labels(values: Sequence[float]) -> Value:
    labels = [int(it) if it.is_integer() else it for it in values]
    return labels[0] if len(labels) == 1 else labels


def _lines(path: Path) -> dict[int, str]:
    """What a list has behind each number: labels and a path; empty without one."""
    if not path.exists():
        return {}
    lines = read_regular(path).decode("utf-8").splitlines()
    rows = (line.partition("\t") for line in lines if line)
    return {int(number): rest for number, _, rest in rows}


def _listed(line: str) -> tuple[str, Value]:
    """The path of a line, and the label as a record has it; None if it is no number."""
    label, _, path = line.rpartition("\t")
    try:
        return path, _labels(np.array(label.split("\t"), np.float32).tolist())
    except ValueError:
        return path, None
