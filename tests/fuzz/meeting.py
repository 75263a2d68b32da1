"""What nodes read of each other before staging: of strangers, and of who knows the secret."""

from __future__ import annotations

import socket
import zlib
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec

from dataprep.staging.agreement import Hello, NodeStart
from dataprep.staging.handshake import prove, receive

_MOST = 1 << 16


def messages() -> list[bytes]:
    hello = msgspec.json.encode(Hello(3, "n3"))
    start = msgspec.json.encode(NodeStart("n3", 3, "d", "/to", 1, 2))
    return [hello, start, b"#CHALLENGE#" + bytes(20), b"[" * 5000 + b"]" * 5000, b"{}"]


def meet(data: bytes, _: Path) -> None:
    """Say it to node 0 as a stranger; in every other input as a node that it knows."""
    ours, theirs = socket.socketpair()
    with theirs:
        said = data[:_MOST]
        framed = len(said).to_bytes(4) + said
        theirs.setblocking(False)
        with suppress(BlockingIOError):  # what there is room for
            theirs.send(framed if zlib.crc32(data) & 1 else data)
        theirs.shutdown(socket.SHUT_WR)
        with Connection(ours.detach()) as link, suppress(OSError, ValueError):
            if zlib.crc32(data) & 1:
                receive(link)
            else:
                prove(link, b"secret", is_node_0=zlib.crc32(data) & 2 != 0)
