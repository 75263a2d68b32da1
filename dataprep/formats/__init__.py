"""A module or folder a format: its writer, its reader, its index, how a foreign file is listed."""

from __future__ import annotations

from dataprep.formats.base import (
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
from dataprep.formats.example import DatasetInfo, Example
from dataprep.formats.hashed_file import hash_finished
from dataprep.formats.stream import StreamReader, StreamWriter

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
