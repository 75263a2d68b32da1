"""Small JSON messages over MPI, waited for without burning the processor."""

from __future__ import annotations

import json
import sys
import time
from array import array
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from dataprep.errors import NoRoomError, StagingError
from dataprep.staging.nodes.peers import Report

if TYPE_CHECKING:
    from mpi4py import MPI

_LONGEST_REASON = 500  # characters; short messages are on their way before anybody asks for them
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.0001, 0.005  # seconds between two looks


class NodeFailedError(StagingError):
    """Another node has failed: it need not be told again that it has."""


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


def reason(error: BaseException | None) -> str | None:
    """What others are told of an error, in a line; None if there is none."""
    if error is None:
        return None
    line = " ".join(str(error).split()) or type(error).__name__
    return line[:_LONGEST_REASON]


def sentence(messages: Sequence[Mapping[str, Any]]) -> str | None:
    """Which node has failed, and why; None if none has."""
    failed = [node for node, message in enumerate(messages) if message["failed"] is not None]
    if not failed:
        return None
    # Not those that have only heard of another's failure, if there are others.
    first_hand = [node for node in failed if not messages[node]["echo"]] or failed
    first = messages[first_hand[0]]
    more = f" (and {len(first_hand) - 1} more)" if len(first_hand) > 1 else ""
    return f"node {first_hand[0]} ({first['host']}){more} failed: {first['failed']}"


def outcome_of(message: Mapping[str, Any]) -> Report:
    """What a copier has told those who wait on its node.

    Raises:
        NoRoomError: it has ended with that.
        StagingError: it has failed otherwise.
    """
    if message["failed"] is not None:
        error = NoRoomError if message["code"] == NoRoomError.exit_code else StagingError
        raise error(message["failed"])
    outcome: Report = message["outcome"]
    return outcome


def abort(communicator: MPI.Comm, error: BaseException | None) -> NoReturn:
    """End all processes of the launch: some wait for what will not come."""
    sys.stderr.write(f"dataprep: error: {reason(error) or 'MPI failed'}; all nodes are ended\n")
    sys.stderr.flush()
    communicator.Abort(1)
    raise SystemExit(1)


def _encode(message: Any) -> bytes:
    return json.dumps(message, ensure_ascii=False).encode("utf-8", "surrogatepass")
