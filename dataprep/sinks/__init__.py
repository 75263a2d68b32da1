"""One module a format: its writer, its reader, its index; and the classes they share."""

from __future__ import annotations

from dataprep.sinks.base import (
    FinishedShard,
    Layout,
    PlainSink,
    Record,
    ShardName,
    ShardReader,
    ShardWriter,
    Sink,
    WrittenFile,
    damage,
    shard_path,
)
from dataprep.sinks.example import DatasetInfo, Example
from dataprep.sinks.hashed_file import hash_finished
from dataprep.sinks.stream import StreamReader, StreamWriter

__all__ = [
    "DatasetInfo",
    "Example",
    "FinishedShard",
    "Layout",
    "PlainSink",
    "Record",
    "ShardName",
    "ShardReader",
    "ShardWriter",
    "Sink",
    "StreamReader",
    "StreamWriter",
    "WrittenFile",
    "damage",
    "hash_finished",
    "shard_path",
]
