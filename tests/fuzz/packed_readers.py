"""What reads other people's shards, and valid ones."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path

from dataprep.datasets.reading import close_archives, read_image
from dataprep.datasets.shards.dataset import Shards
from dataprep.errors import DataprepError
from dataprep.formats.tfrecord import HEADER, masked_crc
from tests.datasets.packing import WRITERS, ones
from tests.fuzz.raw_readers import NEXT

FORMS = {
    "webdataset": "a.tar",
    "parquet": "a.parquet",
    "compressed parquet": "a.parquet",
    "tfrecord": "a",
    "recordio": "a.rec",
    "mds": "shard.00000.mds",
    "tfrecord gzip": "a",
    "mds zstd": "shard.00000.mds.zstd",
    "mds snappy": "shard.00000.mds.snappy",
}
"""What each is called where it is read."""


def packed(form: str) -> list[bytes]:
    """Two of them; an MDS shard with its index behind it."""
    found = []
    for count in (2, 5):
        with tempfile.TemporaryDirectory() as place:
            WRITERS[form](Path(place), ones(count))
            files = sorted(path for path in Path(place).rglob("*") if path.is_file())
            data = {path.suffix: path.read_bytes() for path in files}
            if form.startswith("mds"):
                index = data.pop(".json")
                found.append(NEXT.join((*data.values(), index)))
            else:
                found.append(next(data[suffix] for suffix in data if suffix != ".lst"))
    return found


def sealed_lengths(data: bytes) -> bytes:
    """With the right checksum of the first record's length."""
    head = data[:8]
    return head + masked_crc(head).to_bytes(4, "little") + data[HEADER.size :]


def read_packed(form: str, data: bytes, place: Path) -> None:
    """Find it, scan it, and read its images."""
    mds = form.startswith("mds")
    first, _, index = data.partition(NEXT) if mds else (data, b"", b"")
    (place / FORMS[form]).write_bytes(first)
    if mds:
        (place / "index.json").write_bytes(index)
    close_archives()
    dataset = Shards()
    found = dataset.find(place, None)
    for unit in found.units:
        scanned = dataset.scan(place, found, unit)
        if scanned.copy is not None:
            with (place / unit.copy_name).open("w+b") as file:
                scanned = scanned.copy(file)
        for row in [row for rows in scanned.rows.values() for row in rows][:20]:
            with suppress(DataprepError):
                assert len(read_image(place, row, place, most=1 << 20)) == row.size
