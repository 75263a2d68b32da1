"""What nodes read of each other before staging: of strangers, and of who knows the secret."""

from __future__ import annotations

import socket
import struct
import zlib
from functools import cache
from pathlib import Path

import msgspec

from dataprep.staging import links
from dataprep.staging.agreement import NodeStart
from dataprep.staging.secret import Offer

_SECRET, _AGREED, _NONCE = b"secret", b"job", bytes(32)
_MOST = 1 << 16


def messages() -> list[bytes]:
    hello = msgspec.json.encode(links.Hello(3, "n3"))
    start = msgspec.json.encode(NodeStart("n3", 3, "d", "/to", 1, 2))
    return [hello, start, b"[" * 5000 + b"]" * 5000, b"{}"]


@cache
def _node_0() -> tuple[links.Newcomers, tuple[str, int]]:
    listener = socket.create_server(("127.0.0.1", 0))
    address = listener.getsockname()
    return links.Newcomers(listener, _AGREED, Offer(_SECRET, "environment")), address


def meet(data: bytes, _: Path) -> None:
    """Say it to node 0, in every other input with the right length and signature."""
    newcomers, address = _node_0()
    with socket.create_connection(address) as node:
        # Closed at once and wholly, or there are no ports left soon.
        node.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        newcomers.proven(1)
        greeting = node.recv(int.from_bytes(node.recv(4)), socket.MSG_WAITALL)
        said = data[:_MOST]
        if zlib.crc32(data) & 1:
            key = links._key(_SECRET, links._with_port(_AGREED, address[1]), greeting, _NONCE)
            signed = links.Link(node, key, is_node_0=False)._sign(b"k", 0, said) + said
            said = _NONCE + len(signed).to_bytes(4) + signed
        node.sendall(said)
        node.shutdown(socket.SHUT_WR)
        while newcomers._said:
            for link, _message in newcomers.proven(1):
                link.close()
