"""A few examples of a data set in a bucket, of whose shards only the ranges are downloaded.

A shard's hash says nothing of a range, so each example is compared with its row of
``records.parquet``, whose own hash is in the manifest. What was downloaded before is read again and
compared again: so a hole in a file, or what a power cut left, is only downloaded once more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, TypeVar

import xxhash

from dataprep.errors import SinkError
from dataprep.formats import ShardReader, Sink
from dataprep.formats.example import Example
from dataprep.formats.stream import StreamReader
from dataprep.remote.cache import Cache
from dataprep.system.messages import printable
from dataprep_schemas.manifest import File

_Read = TypeVar("_Read", Example, bytes)

COLUMNS: Final = ("key", "labels", "bytes", "xxh3")
"""Of the table of records, which `Recorded` has."""
_FEW: Final = 16  # one in so many: a whole shard is quicker than a dozen ranges of it


class Recorded(NamedTuple):
    """What the table of records says of an example."""

    key: str
    labels: list[int]
    size: int
    xxh3: str

    def is_of(self, found: Example | bytes) -> bool:
        """Whether this is of an example, or of its image."""
        encoded = found if isinstance(found, bytes) else found.encoded
        if isinstance(found, Example) and (found.key, [*found.labels]) != (self.key, self.labels):
            return False
        same = len(encoded) == self.size
        return same and xxhash.xxh3_128_hexdigest(encoded) == self.xxh3


def is_few(sink: Sink, chosen: int, every: int) -> bool:
    """Whether so many examples of all are so few that shards of this format are not downloaded."""
    return issubclass(getattr(sink, "Reader", object), StreamReader) and chosen * _FEW <= every


def read_few(
    cache: Cache,
    data: File,
    reader: ShardReader,
    numbers: Sequence[int],
    rows: Mapping[int, Recorded],
    read: Callable[[ShardReader, int], _Read],
) -> list[_Read]:
    """Examples of one shard, in the order of the numbers.

    Args:
        data: the shard's first file, which is sparse, as the reader is open on it.
        rows: of each number.

    Raises:
        SinkError: one is not what the table says, in the bucket.
        RemoteError: the store does not answer, or refuses.
    """
    if not isinstance(reader, StreamReader):
        raise TypeError(f"{type(reader).__name__} knows no ranges")

    def look(number: int) -> _Read | None:
        try:
            found = read(reader, number)
        except SinkError:  # as of a hole
            return None
        return found if rows[number].is_of(found) else None

    found = {number: look(number) for number in numbers}
    if lacking := [number for number, one in found.items() if one is None]:
        with suppress(FileNotFoundError):  # the shard is here, whole, and damaged since
            cache.fill(data, [reader.span(number) for number in lacking])
        found |= {number: look(number) for number in lacking}
    examples = []
    for number in numbers:
        one = found[number]
        if one is None:
            raise SinkError(
                f"{cache.address}/{data.path}: record {number} is not {printable(rows[number].key)}"
                " as records.parquet has it; `dataprep verify` names all bad files"
            )
        examples.append(one)
    return examples
