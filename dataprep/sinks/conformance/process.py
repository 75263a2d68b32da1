"""Running a function in a process that differs in everything that bytes must not depend on."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

_Result = TypeVar("_Result")

_CHILD = """
import pickle, sys
sys.path[:] = pickle.load(sys.stdin.buffer)
function, arguments = pickle.load(sys.stdin.buffer)
with open(sys.argv[1], "wb") as file:
    pickle.dump(function(*arguments), file)
"""

# A reader of damaged files that hangs is found out, in the end.
_PATIENCE_SECONDS = 300


class ProcessDiedError(AssertionError):
    """The process crashed, hung or raised; the message ends with what it printed last."""


def in_another_process(
    function: Callable[..., _Result], *arguments: object, directory: Path
) -> _Result:
    """Call an importable function with arguments that can be pickled, in another process.

    Its hash seed, working directory (``directory``), time zone and locale are others.

    Raises:
        ProcessDiedError: it did not return.
    """
    path = [str(Path(entry).absolute()) for entry in sys.path]
    environment = {**os.environ, "PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo", "LC_ALL": "C.UTF-8"}
    result = directory / "result.pickle"
    try:
        done = subprocess.run(  # noqa: S603 - our own interpreter and our own program
            [sys.executable, "-c", _CHILD, str(result)],
            input=pickle.dumps(path) + pickle.dumps((function, arguments)),
            capture_output=True,
            cwd=directory,
            env=environment,
            timeout=_PATIENCE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ProcessDiedError(f"it hung; it printed: {_end(error.stdout)}") from error
    if done.returncode:
        raise ProcessDiedError(
            f"exit code {done.returncode}; it printed: {_end(done.stdout)}\n{_end(done.stderr)}"
        )
    found: _Result = pickle.loads(result.read_bytes())  # noqa: S301 - our own child's
    result.unlink()
    return found


def _end(printed: bytes | None) -> str:
    return (printed or b"").decode("utf-8", "replace")[-2000:]
