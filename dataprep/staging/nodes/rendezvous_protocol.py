"""What nodes say to each other over TCP: JSON behind its length, to a port their job agrees on.

::

    node k                                   node 0
    {"hello": proof, "node": 3, …}  ───────▶
                                    ◀───────  {"welcome": proof}   or "refused", or "failed"
    {"here": true}                  ───────▶
                                    ◀───────  {"start": [host, …]}      once all are there
    {"report": {…}}                 ───────▶
                                    ◀───────  {"reports": [{…}, …]}     once all have reported
    {"failed": "why"}               ───────▶
                                    ◀───────  {"failed": "node 3 …"}    to everyone, at any time
    {"bye": true}                   ───────▶
                                    ◀───────  {"bye": true}

What goes to all is compressed, once: the reports of a thousand nodes repeat each other. Node 0
takes nothing compressed.

Every other user of the cluster can reach the port. Nothing that arrives is run or unpickled, every
length is bounded, before and after unpacking, and whoever does not show the job's token within
seconds is dropped. The token keeps jobs apart. It is no secret: job, user and data set can be
guessed, and nothing is encrypted. Who guesses it can make a job fail or mislead its figures; no
data and no path of a file to be written travels here.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import socket
import struct
import zlib
from typing import Any

LONGEST_HELLO = 4096  # bytes of a message from somebody unknown
LONGEST = 1 << 20  # bytes of a message from a node; of those to a node, times their number
PORTS = 16  # candidates a job has
HEADER = struct.Struct(">I")

_VERSION = 1
# Below 32768, where Linux begins to take ports for outgoing connections: there a candidate is
# seldom taken, and nobody who tries one that is free can end up connected to himself.
_FIRST_PORT, _LAST_PORT = 20_000, 32_767
_ZLIB = b"\x78"  # first byte of all that zlib compresses with its usual window, and of no JSON

Message = dict[str, Any]


def frame(message: Message, *, packed: bool = False) -> bytes:
    """A message as it travels.

    Args:
        message: to be sent.
        packed: compressed, as only what goes to all nodes is.

    Raises:
        TypeError: it is not JSON.
    """
    text = json.dumps(message, separators=(",", ":")).encode()
    if packed:
        text = zlib.compress(text)
    return HEADER.pack(len(text)) + text


def parse(text: bytes, unpacked: int = 0) -> Message:
    """The message in a frame, without its length.

    Args:
        text: what the frame holds.
        unpacked: bytes that it may have once it is no longer compressed; 0 if it must not be.

    Raises:
        ValueError: it is none.
    """
    if unpacked and text.startswith(_ZLIB):
        text = _unpacked(text, unpacked)
    try:
        message = json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(message, dict):
        raise ValueError("not an object")  # noqa: TRY004 - bad data, not a caller's mistake
    return message


def _unpacked(data: bytes, longest: int) -> bytes:
    stream = zlib.decompressobj()
    try:
        # One byte more than allowed: where the output ends in time, so does the stream.
        text = stream.decompress(data, longest + 1)
    except zlib.error as error:
        raise ValueError(f"broken compression: {error}") from None
    if len(text) > longest:
        raise ValueError(f"more than {longest} bytes once unpacked")
    if not stream.eof or stream.unused_data:
        raise ValueError("broken compression: it does not end where the message does")
    return text


def proof(token: str, role: str) -> str:
    """What shows that a process belongs to the token's job, without telling the token.

    Args:
        token: the job's.
        role: ``node`` or ``leader``, so that neither can echo the other's.
    """
    text = f"dataprep rendezvous {_VERSION} {role}"
    return hmac.new(token.encode(), text.encode(), hashlib.sha256).hexdigest()


def proves(claim: object, token: str, role: str) -> bool:
    """Whether a claim is the proof."""
    expected = proof(token, role)
    return isinstance(claim, str) and hmac.compare_digest(claim.encode(), expected.encode())


def candidate_ports(token: str) -> tuple[int, ...]:
    """The ports where the token's job meets, in the order in which they are tried."""
    span = _LAST_PORT - _FIRST_PORT + 1
    ports: dict[int, None] = {}
    turn = 0
    while len(ports) < PORTS:
        digest = hashlib.sha256(f"{token}\n{turn}".encode()).digest()
        ports[_FIRST_PORT + int.from_bytes(digest[:4], "big") % span] = None
        turn += 1
    return tuple(ports)


def keep_alive(connection: socket.socket) -> None:
    """Let the kernel notice within a minute that the other machine has gone without a word."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # Not every system has all of these; they only make it quicker.
    for name, value in (
        ("TCP_KEEPIDLE", 15),  # seconds of silence before the first probe
        ("TCP_KEEPINTVL", 5),  # seconds between two
        ("TCP_KEEPCNT", 6),  # that go unanswered
    ):
        _set_if_known(connection, name, value)


def give_up_soon(connection: socket.socket) -> None:
    """Let the kernel notice also then within a minute when something is under way to the other.

    Only for what a node sends to node 0, which is little: it would also end a connection whose
    other side is merely too slow to take what has been sent.
    """
    _set_if_known(connection, "TCP_USER_TIMEOUT", 60_000)  # ms without acknowledgement


def _set_if_known(connection: socket.socket, name: str, value: int) -> None:
    option = getattr(socket, name, None)
    if option is not None:
        connection.setsockopt(socket.IPPROTO_TCP, option, value)
