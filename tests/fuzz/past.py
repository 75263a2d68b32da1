"""What got through once and is made in a few lines; the rest of it is in ``corpus/``."""

from __future__ import annotations

import struct
import tarfile
from collections.abc import Callable

from tests.fuzz import raw_readers as raw


def _pax(records: bytes) -> bytes:
    header = tarfile.TarInfo("pax")
    header.type, header.size = tarfile.XHDTYPE, len(records)
    return header.tobuf(tarfile.USTAR_FORMAT) + records + bytes(-len(records) % 512) + raw.tars()[0]


def _promising(entries: int) -> bytes:
    archive = bytearray(raw.zips()[0])
    struct.pack_into("<H", archive, archive.rindex(b"PK\5\6") + 10, entries)
    return bytes(archive)


def _restarts(count: int) -> bytes:
    return struct.pack("=6sBQQIII", b"GZIDX\1", 0, 9000, 9000, 1 << 16, 1 << 15, count) + bytes(90)


def _going_back() -> bytes:
    """The second point unpacks to where the first one does."""
    data = bytearray(raw.restarts()[0])
    data[35 + 18 + 8 : 35 + 18 + 16] = bytes(8)
    return bytes(data)


PAST: dict[str, Callable[[], dict[str, bytes]]] = {
    "tar": lambda: {
        "1 MB of digits": _pax(b"1" * 10**6),
        "60 kB of digits": _pax(b"1" * 60_000),
        "records that overlap": _pax(b"2 " * 30_000 + b"=\n"),
        "a long number": _pax(b"60020 comment=" + b"1" * 60_005 + b"\n"),
    },
    "zip": lambda: {f"{count} entries": _promising(count) for count in (0, 4, 6, 65534, 65535)},
    "restart points": lambda: {
        "an endless wait": _going_back(),
        **{f"{count} points": _restarts(count) for count in (0, 9, 2**31, 2**32 - 1)},
    },
    "boxes": lambda: {"a blank line": b"a.JPEG,0,0,1,1\n\n", "a long field": b"a" * 140_000},
}
