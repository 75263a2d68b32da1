"""WebDataset archives: members of one name up to the first dot, next to each other, are a sample.

Source: ``base_plus_ext`` and ``group_by_keys`` in webdataset's tariterators.py. What it would
unpickle (``.pyd``, ``.pkl``, ``.pickle``, ``.pth``) is never opened.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Final

from dataprep.archives.containers import container_kind
from dataprep.archives.listing import StoredImage, clean_path, in_clutter, is_image_name
from dataprep.archives.open_files import ByteStream, ForwardStream
from dataprep.archives.packed import Copy
from dataprep.archives.tar import Archive, ArchiveMember, walk
from dataprep.formats.samples import LONGEST, Sample, Value, streamed

_NUMBERS: Final = frozenset({"cls", "cls2", "index", "inx", "id"})
_TEXTS: Final = frozenset({"txt", "text", "transcript"})
_JSON: Final = frozenset({"json", "jsn"})
_WHOLE: Final = re.compile(r"\s*([+-]?[0-9]+)(?:\.0*)?\s*")
_KEY: Final = re.compile(r"((?:.*/|))([^/.][^/]*?)[.]([^/]+)", re.DOTALL)


def webdataset_samples(
    raw: Path,
    container: str,
    restarts: str = "",
    kept: list[bytes] | None = None,
    copy: Copy | None = None,
) -> Iterator[Sample]:
    """The samples of an archive, in its order; ``json`` gives a field for each of its own.

    The key is the name of the image's member, or, without an image, what the members share.

    Args:
        restarts: under which name the restart points of a ``.tar.gz`` will be in the index.
        kept: gets these, as bytes; None: they are not asked for.
        copy: what a ``.tar.zst`` or ``.tar.xz`` is unpacked to.

    Raises:
        SourceError: the archive cannot be read, or is damaged.
    """
    with streamed(raw, container, "WebDataset archive", copy) as (source, stream, packing):
        if compressed := container_kind(container) == "gzip":
            from dataprep.archives.gzip import find_restarts, unpack  # late: it loads numpy

            stream = forward = ForwardStream(unpack(source))
            packing = ("gzip", restarts)
        count = 0
        parts = _parts(stream, container)
        for name, members in groupby(parts, key=lambda part: part[0]):
            sample = Sample(name, {}, {}, [])
            for _, suffix, path, member in members:
                if is_image_name(path):
                    place = (member.offset, member.size, member.modified, packing)
                    sample.images[suffix] = StoredImage(path, container, *place, source.mtime)
                    count += 1
                else:
                    _read(stream, suffix, member, sample)
            yield sample
        if compressed and kept is not None:
            kept.append(find_restarts(source, forward.produced, count))


def _parts(stream: ByteStream, container: str) -> Iterator[tuple[str, str, str, ArchiveMember]]:
    """The name of the sample, the suffix in lower case, the path and the member of each part."""
    for member in walk(stream, Archive(container)):
        try:
            path = clean_path(member.name)
        except ValueError:
            continue
        found = _KEY.fullmatch(path)
        if member.refusal or found is None or in_clutter(path) or path.startswith("__"):
            continue
        yield found[1] + found[2], found[3].lower(), path, member


def _read(stream: ByteStream, suffix: str, member: ArchiveMember, sample: Sample) -> None:
    """Add what a member says, by its last suffix; nothing if that is for none of us."""
    kind = suffix.rpartition(".")[2]
    if kind not in _NUMBERS | _TEXTS | _JSON:
        return
    if member.size > LONGEST:
        sample.unread.append(suffix)
        return
    value: Value
    try:
        value = text = stream.read_at(member.offset, member.size).decode("utf-8")
        if kind in _NUMBERS:  # webdataset takes no others; some write names there
            value = int(found[1]) if (found := _WHOLE.fullmatch(text)) else text.strip()
        elif kind in _JSON:
            value = json.loads(text)
    except (ValueError, RecursionError):
        sample.unread.append(suffix)
    else:
        named = {suffix: value}
        if isinstance(value, dict):
            named = {f"{suffix}.{name}": each for name, each in value.items()}
        sample.fields.update((name, each) for name, each in named.items() if each is not None)
