"""One MDS shard: its writer and its reader.

The file, as ``MDSWriter.encode_joint_shard`` of MosaicML Streaming 0.13 makes it::

    uint32           n, how many samples there are
    uint32[n + 1]    where each begins; and where the last ends, which is the end of the file
    JSON             names and encodings of the columns
    n times          a sample, as ``MDSWriter.encode_sample`` makes it

Nothing in it checks itself: `dataprep verify` finds flipped bits by the manifest's SHA-256.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any

import numpy as np
from dataprep.errors import SinkError
from dataprep.formats import DatasetInfo, ShardReader, ShardWriter, WrittenFile, damage
from dataprep.formats.example import Example
from dataprep.formats.hashed_file import HashedFile
from dataprep_schemas.fields import PLAIN
from streaming import LocalDataset, MDSWriter
from streaming.base.format.mds import MDSReader

_COLUMNS = {
    "boxes": "json",
    "format": "str",
    "height": "int",
    "image": "bytes",
    "key": "json",  # a str for who reads it, too; MDS's "str" cannot hold names that are not UTF-8
    "width": "int",
}
_MOST_BYTES = (1 << 32) - 1  # what an offset can say
_MOST_JSON = 1 << 16
_CHUNK = 1 << 20


class MdsShardWriter(ShardWriter):
    """Writes a shard in the memory of one sample.

    The table in front of the samples is as long as there are samples, so ``MDSWriter`` keeps all
    of them in memory until it knows how many. Here they wait in a file without a name, which is
    copied behind the table in the end, and which vanishes if the process is killed.
    """

    def __init__(self, path: Path, info: DatasetInfo) -> None:
        super().__init__(info)
        self._path = path
        with TemporaryDirectory() as unused:  # it insists on one, and only encodes here
            self._encoder = MDSWriter(columns=_columns(info), out=unused, size_limit=None)
        self._ends = [0]
        # Unbuffered: nothing is left to flush when a shard is abandoned on a full disk. If the
        # file system insists on a name, it is one that dataprep sweeps away after a kill.
        self._samples = TemporaryFile(  # noqa: SIM115 - closed by `close` or `abandon`
            buffering=0, dir=path.parent, prefix=".samples-", suffix=path.name
        )

    def append(self, example: Example) -> None:
        """Append one sample."""
        sample: bytes = self._encoder.encode_sample(self._values(example))
        end = self._ends[-1] + len(sample)
        if self._begin() + 4 + end > _MOST_BYTES:
            raise SinkError("an MDS shard holds 4 GiB at most; give more --num_shards")
        self._ends.append(end)
        rest = memoryview(sample)
        while rest:
            rest = rest[self._samples.write(rest) :]

    def close(self) -> Sequence[WrittenFile]:
        """Write the table, and the samples behind it."""
        file = HashedFile(self._path)
        try:
            file.write(np.uint32(len(self._ends) - 1).tobytes())
            file.write((np.array(self._ends) + self._begin()).astype(np.uint32).tobytes())
            file.write(self._encoder.config_data)
            self._samples.seek(0)
            while chunk := self._samples.read(_CHUNK):
                file.write(chunk)
            return [file.finish()]
        finally:
            file.abandon()
            self._samples.close()

    def abandon(self) -> None:
        """Let go of the samples."""
        self._samples.close()

    def _begin(self) -> int:
        """Where the first sample begins in the finished file."""
        return 4 + 4 * len(self._ends) + len(self._encoder.config_data)

    def _values(self, example: Example) -> dict[str, object]:
        values: dict[str, object] = {
            "boxes": example.fields.get("boxes", ()),
            "format": example.format,
            "height": example.height,
            "image": example.encoded,
            "key": example.key,
            "width": example.width,
        }
        if plain := _plain(self.info):
            said = sorted(example.fields.items())
            values["attributes"] = {name: value for name, value in said if name in plain}
        if self.info.multilabel:
            values["box_labels"] = example.fields.get("box_labels", ())
            return values | {"labels": np.array(self.info.multi_hot(example.labels), np.uint8)}
        return values | {"label": example.class_index}


class MdsShardReader(ShardReader):
    """Reads one shard through MosaicML's ``MDSReader``, which opens the file for every sample."""

    def __init__(self, path: Path, info: DatasetInfo) -> None:
        super().__init__(path, info)
        with damage(path, "table"):
            entry = index_entry(path)
            expected = _columns(info) if info.classes else _COLUMNS
            found = dict(zip(entry["column_names"], entry["column_encodings"], strict=True))
            if not expected.items() <= found.items():
                raise SinkError(f"its columns are {found}, expected {expected}")
            self._shard = MDSReader.from_json(str(path.parent), None, entry)
            self._shard.validate(allow_unsafe_types=False)  # unpickling would run code

    def __len__(self) -> int:
        """How many samples its table has."""
        return int(self._shard.samples)

    def read(self, number: int) -> Example:
        """Sample ``number``, found through the table."""
        sample = self._shard[number]
        return self.info.example(
            sample["key"],
            sample["image"],
            _labels(sample),
            kind=sample["format"],
            size=(sample["height"], sample["width"]),
            fields={
                "boxes": tuple(map(tuple, sample["boxes"])),
                "box_labels": tuple(sample.get("box_labels", ())),
                **sample.get("attributes", {}),
            },
        )

    def close(self) -> None:
        """Nothing is open between two samples."""


def index_entry(path: Path) -> dict[str, Any]:
    """What ``index.json`` says of a shard, read from the shard itself.

    Raises:
        SinkError: it is not an MDS shard, or not a whole one.
    """
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(0)
        samples = int.from_bytes(file.read(4), "little")
        table = 4 * (samples + 2)
        if size < table:
            raise SinkError(f"{size} bytes are too few for a table of {samples} samples")
        offsets = np.frombuffer(file.read(table - 4), np.uint32).astype(np.int64)
        configuration = file.read(min(max(int(offsets[0]) - table, 0), _MOST_JSON))
    fits = offsets[0] == table + len(configuration) and offsets[-1] == size
    if not fits or (np.diff(offsets) < 0).any():
        raise SinkError(f"its table of {samples} samples does not fit its {size} bytes")
    entry: dict[str, Any] = dict(json.loads(configuration))
    data = {"basename": path.name, "bytes": size, "hashes": {}}
    entry |= {"samples": samples, "raw_data": data, "zip_data": None}
    return entry


def local_records(path: Path) -> Iterator[tuple[bytes, tuple[int, ...]]]:
    """Image bytes and labels of a shard, as ``LocalDataset`` gives them."""
    entry = index_entry(path)
    with TemporaryDirectory() as directory:
        Path(directory, path.name).symlink_to(path.absolute())
        index = {"version": 2, "shards": [entry]}
        Path(directory, "index.json").write_text(json.dumps(index), encoding="utf-8")
        dataset = LocalDataset(directory)
        for number in range(len(dataset)):
            sample = dataset[number]
            yield sample["image"], _labels(sample)


def _columns(info: DatasetInfo) -> dict[str, str]:
    """Names and MDS encodings of the columns."""
    columns = _COLUMNS | ({"attributes": "json"} if _plain(info) else {})
    if info.multilabel:
        labels = f"ndarray:uint8:{len(info.classes)}"
        return columns | {"labels": labels, "box_labels": "json"}
    return columns | {"label": "int"}


def _plain(info: DatasetInfo) -> set[str]:
    """The names of the fields that are a number or a text."""
    return {field.name for field in info.fields if field.kind in PLAIN}


def _labels(sample: Mapping[str, Any]) -> tuple[int, ...]:
    if "labels" in sample:
        return tuple(np.flatnonzero(sample["labels"]).tolist())
    return (sample["label"],)
