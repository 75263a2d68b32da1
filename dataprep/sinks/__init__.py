"""One module a format: its writer, its reader, its index; and the protocol they share."""

from __future__ import annotations

from dataprep.sinks.base import Layout, ShardName, ShardWriter, Sink, WrittenFile

__all__ = ["Layout", "ShardName", "ShardWriter", "Sink", "WrittenFile"]
