"""Small JSON messages over MPI, waited for without burning the processor."""

from __future__ import annotations

import json
import sys
import time
from array import array
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from dataprep.errors import DataprepError, NoRoomError, StagingError

if TYPE_CHECKING:
    from mpi4py import MPI

_LONGEST_REASON = 500  # characters; short messages are on their way before anybody asks for them
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.0001, 0.005  # seconds between two looks


class NodeFailedError(StagingError):
    """Another node has failed: it need not be told again that it has."""


class NodeFullError(NodeFailedError, NoRoomError):
    """Another node has failed because it has too little space."""


def gather(communicator: MPI.Comm, message: Any) -> list[Any]:
    """Everybody's message, by rank; everybody must call it.

    Args:
        communicator: of those who take part.
        message: JSON.
    """
    from mpi4py import MPI

    text = _encode(message)
    mine = array("i", [len(text)])
    lengths = array("i", [0] * communicator.Get_size())
    wait_for(communicator.Iallgather([mine, MPI.INT], [lengths, MPI.INT]))
    texts = bytearray(sum(lengths))
    wait_for(communicator.Iallgatherv([text, MPI.BYTE], [texts, list(lengths), MPI.BYTE]))
    messages, begin = [], 0
    for length in lengths:
        messages.append(json.loads(texts[begin : begin + length]))
        begin += length
    return messages


def send(communicator: MPI.Comm, message: Any, rank: int, tag: int) -> MPI.Request:
    """Begin to send JSON to another; the request must be waited for."""
    from mpi4py import MPI

    return communicator.Isend([_encode(message), MPI.BYTE], rank, tag)


def receive(communicator: MPI.Comm, rank: int, tag: int) -> Any:
    """The JSON that another has sent, or is about to."""
    from mpi4py import MPI

    status = MPI.Status()
    communicator.Probe(rank, tag, status)
    text = bytearray(status.Get_count(MPI.BYTE))
    communicator.Recv([text, MPI.BYTE], rank, tag)
    return json.loads(text)


def wait_for(request: MPI.Request) -> None:
    """Sleep until an operation is complete, for those that may take long."""
    pause = _SHORTEST_PAUSE
    while not request.Test():
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


def reason(error: BaseException) -> str:
    """What others are told of an error, in a line."""
    line = " ".join(str(error).split()) or type(error).__name__
    return line[:_LONGEST_REASON]


def ending(error: BaseException | None) -> dict[str, Any]:
    """The part of a message that says how its sender has ended, or that it goes on."""
    return {
        "failed": None if error is None else reason(error),
        "code": error.exit_code if isinstance(error, DataprepError) else 1,
        "echo": isinstance(error, NodeFailedError),
    }


def failure(messages: Sequence[Mapping[str, Any]]) -> NodeFailedError | None:
    """Which node has failed, and why; None if none has.

    Args:
        messages: of all nodes: what `ending` says, and ``host``.
    """
    failed = [node for node, message in enumerate(messages) if message["failed"] is not None]
    if not failed:
        return None
    # Not those that have only heard of another's failure, if there are others.
    first_hand = [node for node in failed if not messages[node]["echo"]] or failed
    first = messages[first_hand[0]]
    more = f" (and {len(first_hand) - 1} more)" if len(first_hand) > 1 else ""
    text = f"node {first_hand[0]} ({first['host']}){more} failed: {first['failed']}"
    return NodeFullError(text) if _is_full(first) else NodeFailedError(text)


def raise_as(message: Mapping[str, Any]) -> None:
    """End as the copier of this node has ended.

    Args:
        message: what `ending` says of it.

    Raises:
        NoRoomError: it has ended with that.
        StagingError: it has failed otherwise.
    """
    if message["failed"] is not None:
        error = NoRoomError if _is_full(message) else StagingError
        raise error(message["failed"])


def _is_full(message: Mapping[str, Any]) -> bool:
    return bool(message["code"] == NoRoomError.exit_code)


def abort(communicator: MPI.Comm, error: BaseException | None) -> NoReturn:
    """End all processes of the launch: some wait for what will not come."""
    text = "MPI failed" if error is None else reason(error)
    sys.stderr.write(f"dataprep: error: {text}; all nodes are ended\n")
    sys.stderr.flush()
    communicator.Abort(1)
    raise SystemExit(1)


def _encode(message: Any) -> bytes:
    return json.dumps(message, ensure_ascii=False).encode("utf-8", "surrogatepass")
