"""Reading files whose hash nobody has compared, in a process of their own.

LMDB and HDF5 trust what they read (`Sink.trusts_files`): one wrong byte can end the process or have
it loop for ever. Here that is one line.
"""

from __future__ import annotations

import os
import pickle
import resource
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from threading import Thread, Timer
from typing import IO, Any, TypeVar

from dataprep.errors import SinkError
from dataprep.formats.base import Sink
from dataprep.formats.example import DatasetInfo, Example
from dataprep.system.job_limits import available_memory

_Item = TypeVar("_Item")

_CHILD = """
import os, pickle, sys
answers = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)  # whatever a library prints must not come between the answers
sys.path[:] = pickle.load(sys.stdin.buffer)
from dataprep.formats.subprocess_reader import serve
serve(sys.stdin.buffer, answers)
"""
_LEAST_MEMORY = 1 << 30  # bytes; Python and the libraries need some
_SECONDS = 60.0  # until the next item is there


def read_unverified(
    sink: Sink, paths: Sequence[Path], info: DatasetInfo
) -> Generator[Example, None, None]:
    """Every example of a shard in order; in another process, if the format trusts its files.

    Raises:
        SinkError: it is damaged; in one line, even if its library crashes.
    """
    if sink.trusts_files:
        yield from in_child(paths[0], _examples, sink, paths, info)
    else:
        yield from _examples(sink, paths, info)


def in_child(
    path: Path,
    function: Callable[..., Iterator[_Item]],
    *arguments: object,
    seconds: float | None = None,
    memory: int = 0,
) -> Iterator[_Item]:
    """Yield what a generator function yields when another process calls it.

    Args:
        path: what is read; for messages.
        function: importable; its arguments and what it yields can be pickled.
        seconds: to wait for each item; 60 if None.
        memory: bytes that the process may have; 0: all that is left, and 1 GiB at least.

    Raises:
        SinkError: the other process crashed or hung.
        Exception: whatever ``function`` raises.
    """
    # The working directory, which is the empty entry, may be that of the data: see -P.
    search_path = [str(Path(entry).absolute()) for entry in sys.path if entry]
    command = [sys.executable, "-P", "-c", _CHILD]
    with subprocess.Popen(  # noqa: S603 - our own interpreter and our own program
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as child:
        assert child.stdin is not None  # noqa: S101 - for mypy: it was asked for
        assert child.stdout is not None  # noqa: S101
        try:
            # It stays open: its end tells the other process that nobody is left, see `serve`.
            words = pickle.dumps(search_path) + pickle.dumps((function, arguments, memory))
            child.stdin.write(words)
            child.stdin.flush()
            while True:
                item, error = _next(
                    child, child.stdout, path, _SECONDS if seconds is None else seconds
                )
                if isinstance(error, StopIteration):
                    return
                if isinstance(error, MemoryError):
                    raise SinkError(
                        f"{path}: more memory is needed to read it than there is: the file is "
                        "damaged, or somebody made it so; make the shard again"
                    )
                if error is not None:
                    raise error
                yield item
        finally:
            child.kill()


def _next(
    child: subprocess.Popen[bytes], stream: IO[bytes], path: Path, seconds: float
) -> tuple[Any, Exception | None]:
    watchdog = Timer(seconds, child.kill)
    watchdog.start()
    try:
        found: tuple[Any, Exception | None] = pickle.load(stream)  # noqa: S301 - our own child's
    except (EOFError, pickle.UnpicklingError) as error:
        hung = not watchdog.is_alive()
        child.kill()
        what = f"did not answer for {seconds:.0f} s" if hung else f"crashed ({child.wait()})"
        raise SinkError(
            f"{path}: the process that read it {what}: the file is damaged or of another format; "
            "make the shard again"
        ) from error
    finally:
        watchdog.cancel()
    return found


def serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Be the other process: pickle (item, None) for each item, then (None, what ended it)."""
    # Not of the address space, in which LMDB maps files that are larger than the memory.
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    # Arrow's own takes a gigabyte at once of what is bounded, used or not.
    os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"
    function, arguments, memory = pickle.load(requests)  # noqa: S301 - our own parent's
    Thread(target=_end_with, args=(requests.fileno(),), daemon=True).start()
    memory = memory or max(available_memory(), _LEAST_MEMORY)
    resource.setrlimit(resource.RLIMIT_DATA, (memory if most < 0 else min(memory, most), most))
    ended: Exception = StopIteration()
    try:
        for item in function(*arguments):
            pickle.dump((item, None), answers)
            answers.flush()
    except Exception as error:  # noqa: BLE001 - it is raised again over there
        ended = error
    pickle.dump((None, ended), answers)
    answers.flush()


def _end_with(requests: int) -> None:
    """End as soon as whoever asks is gone, also where that was killed."""
    os.read(requests, 1)
    os._exit(1)


def _examples(sink: Sink, paths: Sequence[Path], info: DatasetInfo) -> Iterator[Example]:
    with sink.reader(paths, info) as reader:
        yield from reader
