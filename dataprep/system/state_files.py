"""JSON files and hashes: what a run leaves for the next one to believe.

A state file has a hash over all of its bytes. One that is torn, damaged, of another kind or not
there at all is the same to whoever reads it: None, and what it told is found out again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dataprep.system.durable_files import write_durably
from dataprep.system.regular_files import open_descriptor, read_regular

State = dict[str, Any]

_READ = 1 << 20  # a stripe of Lustre, and small enough for the processor's cache


def to_json(value: object) -> bytes:
    """``value`` as JSON in the one way of this project: equal values are equal bytes."""
    return (json.dumps(value, indent=1, sort_keys=True) + "\n").encode()


def file_sha256(path: Path, told: Callable[[int], None] | None = None) -> str:
    """SHA-256 of a file, in hex.

    Args:
        told: how many bytes were read since the last call.
    """
    digest = hashlib.sha256()
    buffer = memoryview(bytearray(_READ))  # one for all: a new one is pages to be cleared
    with open(open_descriptor(path), "rb", buffering=0) as file:
        while size := file.readinto(buffer):
            digest.update(buffer[:size])
            if told is not None:
                told(size)
    return digest.hexdigest()


def encode(state: Mapping[str, Any]) -> bytes:
    """A state file's bytes: JSON that carries the SHA-256 of the rest of it."""
    state = json.loads(to_json(state))  # as it is read back, where every key is text
    return to_json({**state, "checksum": _digest(state)})


def write_state(
    path: Path,
    state: Mapping[str, Any],
    *,
    flush: bool = False,
    check: Callable[[], object] = lambda: None,
) -> None:
    """Put a state where `read_state` finds it: whole or not at all.

    Args:
        state: JSON; no ``checksum``.
        flush: whether it must outlive a power cut; after one, a torn state counts as not there.
        check: as for `write_durably`.
    """
    write_durably(path, encode(state), flush=flush, check=check)


def read_state(path: Path) -> State | None:
    """What was written; None if not exactly that is there."""
    try:
        data = read_regular(path)
        state = json.loads(data)
        claimed = state.pop("checksum")
        whole = claimed == _digest(state) and encode(state) == data
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return state if whole else None


def is_intact(path: Path, sha256: str) -> bool:
    """Whether a regular file is there and has this hash."""
    try:
        return file_sha256(path) == sha256
    except OSError:
        return False


def _digest(state: Mapping[str, Any]) -> str:
    return hashlib.sha256(to_json(state)).hexdigest()
