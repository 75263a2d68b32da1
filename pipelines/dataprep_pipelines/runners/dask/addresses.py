"""Where a Dask scheduler is: as the user wrote it, or as the scheduler did in a file."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

from dataprep.errors import PipelineError, UsageError

_SCHEMES = frozenset({"tcp", "tls", "ucx", "ucxx", "ws", "wss"})
_ENCRYPTED = frozenset({"tls", "wss"})
_ADDRESS = re.compile(r"(?:(?P<scheme>\w+)://)?(?P<host>\[[^\]\s]+\]|[^:/\s]+):(?P<port>[0-9]+)/?")
_LAST_PORT = 65535
_PAUSE_SECONDS = 0.2


def check_address(address: str) -> None:
    """Find out whether Dask could connect to it.

    Raises:
        UsageError: it is no address, or needs certificates of which Dask does not know.
    """
    found = _ADDRESS.fullmatch(address)
    scheme = found["scheme"] if found is not None else None
    if found is None or not 0 < int(found["port"]) <= _LAST_PORT or scheme not in {None, *_SCHEMES}:
        hint = " (http:// is its dashboard's)" if address.startswith("http") else ""
        raise UsageError(
            f"--dask_client_address {address} is not the address of a Dask scheduler{hint}; it "
            "looks like tcp://10.0.0.1:8786"
        )
    if scheme in _ENCRYPTED:
        _check_certificates(address)


def connection_arguments(address: str) -> dict[str, Any]:
    """What Dask's configuration says of connections to a scheduler, as its own client takes it."""
    from distributed.client import _maybe_call_security_loader
    from distributed.security import Security

    security = _maybe_call_security_loader(address) or Security()
    arguments: dict[str, Any] = security.get_connection_args("client")
    return arguments


def _check_certificates(address: str) -> None:
    what = f"--dask_client_address {address}"
    try:
        context = connection_arguments(address).get("ssl_context")
    except (OSError, ValueError, TypeError) as error:
        raise UsageError(
            f"{what}: the certificates that Dask's configuration names cannot be used ({error}); "
            'see "Security" in docs/engines.md'
        ) from error
    if context is None:
        raise UsageError(
            f"{what} needs certificates, and Dask's configuration names none; see "
            '"Security" in docs/engines.md'
        )


def address_in(file: Path, patience: float) -> str:
    """What a scheduler wrote, or writes soon: a batch script starts all at the same time.

    Args:
        file: perhaps not there yet, or only half written.
        patience: seconds to wait for it.

    Raises:
        PipelineError: it does not come, or is something else.
    """
    end = time.monotonic() + patience
    while True:
        address, why = _read(file)
        if address is not None:
            return address
        if time.monotonic() > end:
            raise PipelineError(f"--dask_scheduler_file {file} {why.format(f'{patience:.0f} s')}")
        time.sleep(_PAUSE_SECONDS)


def _read(file: Path) -> tuple[str | None, str]:
    """The address, or why there is none, with a place for how long that was so."""
    try:
        text = file.read_bytes()
    except FileNotFoundError:
        return None, "did not appear within {}; start a scheduler that writes it"
    except OSError as error:
        return None, f"cannot be read ({error.strerror}); start a scheduler that writes it"
    try:
        address = json.loads(text)["address"]
    except (ValueError, TypeError, KeyError):
        address = None
    if isinstance(address, str):
        return address, ""
    return None, (
        "is not a scheduler's file (expected JSON with an address, waited {}); start a scheduler "
        "that writes it"
    )
