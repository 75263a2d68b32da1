"""One module a format: its writer, its reader, its index; and the class they share."""

from __future__ import annotations

from dataprep.sinks.base import (
    DatasetInfo,
    FinishedShard,
    Layout,
    ShardName,
    ShardReader,
    ShardWriter,
    Sink,
    WrittenFile,
    shard_path,
)
from dataprep.sinks.example import Example

__all__ = [
    "DatasetInfo",
    "Example",
    "FinishedShard",
    "Layout",
    "ShardName",
    "ShardReader",
    "ShardWriter",
    "Sink",
    "WrittenFile",
    "shard_path",
]
