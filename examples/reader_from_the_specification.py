"""Read a finished data set by docs/on-disk.md: ``python reader_from_the_specification.py OUT``.

No dataprep: Python's standard library and pyarrow. It checks the manifest's hash, the size and the
hash of every file, and compares each record of tfrecord, recordio, webdataset and parquet with its
row of records.parquet; of the other formats, which take a library each, the files and the rows.
"""
# ruff: noqa: D103, T201 - docs/on-disk.md says what each is

import hashlib
import json
import re
import struct
import sys
import tarfile
from collections.abc import Iterable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

from pyarrow import parquet

Records = Iterator[tuple[str, bytes, list[int]]]  # key, image file, 0-based labels
BEGINS = {"JPEG": b"\xff\xd8\xff", "PNG": b"\x89PN"}
MAGIC = struct.pack("<I", 0xCED7230A)
OWN_HASH = re.compile(rb',\n "sha256": "[0-9a-f]{64}"(?=\n})|\n "sha256": "[0-9a-f]{64}",')


def expect(holds: bool, otherwise: str) -> None:
    if not holds:
        sys.exit(f"not as docs/on-disk.md says: {otherwise}")


def read_document(path: Path, form: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_bytes())
    digest = hashlib.sha256(OWN_HASH.sub(b"", path.read_bytes())).hexdigest()
    expect((found["format"], found["sha256"]) == (form, digest), f"{path} has another hash or form")
    return found


def check_file(out: Path, file: dict[str, Any]) -> Path:
    with open(out / file["path"], "rb") as opened:
        found = hashlib.file_digest(opened, "sha256").hexdigest(), opened.tell()
    expect(found == (file["sha256"], file["bytes"]), f"{file['path']} has another size or hash")
    return Path(out, file["path"])


def read_tfrecord(paths: list[Path], several: bool) -> Records:
    with paths[0].open("rb") as file:
        while head := file.read(12):  # a length, and its CRC
            features = read_example(file.read(*struct.unpack("<Q", head[:8])))
            file.seek(4, 1)  # the CRC of the data
            key, labels = features["image/key"][0].decode(), features["image/class/label"]
            yield key, features["image/encoded"][0], ones(labels) if several else [labels[0] - 1]


def read_example(data: bytes) -> dict[str, list[Any]]:
    found = {}
    for entry in (entry for _, features in read_fields(data) for _, entry in read_fields(features)):
        (_, name), (_, feature) = read_fields(entry)
        for kind, values in read_fields(feature):  # 1: bytes, 2: floats, 3: whole numbers
            items: list[Any] = [value for _, value in read_fields(values)]
            if kind == 3:
                packed = BytesIO(b"".join(items))
                items = [read_number(packed) for byte in packed.getbuffer() if byte < 128]
            found[name.decode()] = items
    return found


def read_fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    stream = BytesIO(message)
    while tag := stream.read(1):
        yield tag[0] >> 3, stream.read(read_number(stream))


def read_number(stream: BytesIO) -> int:
    (byte,) = stream.read(1)
    return byte if byte < 128 else byte - 128 + 128 * read_number(stream)


def read_recordio(paths: list[Path], several: bool) -> Records:
    data, at = paths[0].read_bytes(), 0
    for line in paths[2].read_text("utf-8").splitlines():
        parts, more = [], True
        while more:
            expect(data[at : at + 4] == MAGIC, f"{paths[0]} has no record at {at}")
            kind, length = divmod(int.from_bytes(data[at + 4 : at + 8], "little"), 1 << 29)
            parts.append(data[at + 8 : at + 8 + length])
            at, more = at + 8 + length + -length % 4, kind in (1, 2)
        record = MAGIC.join(parts)
        count, label = struct.unpack_from("<If", record)
        labels = ones(struct.unpack_from(f"<{count}f", record, 24)) if several else [int(label)]
        yield line.split("\t")[-1], record[24 + 4 * count :], labels


def read_webdataset(paths: list[Path], _several: bool) -> Records:
    with tarfile.open(paths[0]) as archive:
        for member in archive:
            data = archive.extractfile(member).read()  # type: ignore[union-attr]  # all are files
            if member.name.endswith(".mask.png"):
                continue
            if member.name.endswith((".jpg", ".png")):
                image = data
            elif member.name.endswith(".json"):  # the last of a sample
                yield json.loads(data)["key"], image, json.loads(data)["labels"]


def read_parquet(paths: list[Path], several: bool) -> Records:
    for row in parquet.read_table(paths[0], page_checksum_verification=True).to_pylist():
        yield row["key"], row["image"]["bytes"], row["labels"] if several else [row["label"]]


def ones(vector: Iterable[float]) -> list[int]:
    return [number for number, value in enumerate(vector) if value == 1]


READERS = {"tfrecord": read_tfrecord, "recordio": read_recordio, "webdataset": read_webdataset}
READERS["parquet"] = read_parquet


def records(out: Path) -> Iterator[tuple[dict[str, Any], bytes | None]]:
    """The row of each record that is here, in order, and its image if the format is one of four."""
    manifest, part = read_document(out / "manifest.json", "dataprep-manifest-2"), None
    if (out / "part.json").exists():  # a node's share
        part = read_document(out / "part.json", "dataprep-part-2")
        expect(part["manifest_sha256"] == manifest["sha256"], "part.json is of another data set")
    rows = iter(parquet.read_table(check_file(out, manifest["records_table"])).to_pylist())
    read, several = READERS.get(manifest["sink"]["name"]), manifest["examples"]["multilabel"]
    for name, split in sorted(manifest["splits"].items()):
        for file in () if part else split["files"]:
            check_file(out, file)
        for number, shard in enumerate(split["shards"]):
            mine = [next(rows) for _ in range(shard["records"])]
            places = [(row["split"], row["shard"], row["position"]) for row in mine]
            expect(places == [(name, number, at) for at in range(len(mine))], f"order: {places}")
            if part and number not in part["splits"].get(name, ()):
                continue
            paths = [check_file(out, file) for file in shard["files"]]
            for row, record in zip(mine, read(paths, several) if read else mine, strict=True):
                if read:
                    key, image, labels = record
                    found = key, labels, len(image), image[:3]
                    said = row["key"], row["labels"], row["bytes"], BEGINS[row["format"]]
                    expect(found == said, f"a record is {found}, its row {said}")
                yield row, image if read else None
    expect(all(row["position"] is None for row in rows), "there are records in no shard")


if __name__ == "__main__":
    images = [image for _, image in records(Path(sys.argv[1]))]
    print(f"{len(images)} records, {len([*filter(None, images)])} of them read: as specified")
