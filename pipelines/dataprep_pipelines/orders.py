"""A worker's orders: in a file that all workers share, not in every message to them.

Class names alone can be megabytes; a graph of ten thousand shards should not carry them as often.
A worker reads its orders once a process, and makes sure that it can follow them.
"""

from __future__ import annotations

import hashlib
import pickle
import socket
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dataprep.build.lock import Lease
from dataprep.datasets import close_archives
from dataprep.system.durable_files import write_durably
from dataprep_pipelines.runners.shared_places import CannotWorkError, SharedPlaces

_READING = threading.Lock()
_READ: OrderedDict[Path, Any] = OrderedDict()
_KEPT = 8  # a worker may serve several runs at a time


@dataclass(frozen=True, slots=True)
class Orders:
    """Where the orders are; pickled into every task, so it is small.

    Attributes:
        path: the file.
        lease: of the run that gave them.
        sha256: of the file. Reading it runs what is in it, and others may be able to write there.
    """

    path: Path
    lease: Lease
    sha256: str

    @property
    def _out(self) -> Path:
        return self.path.parents[1]

    def read(self) -> Any:
        """What was ordered, the same object for all threads of a process.

        Raises:
            CannotWorkError: this process cannot follow them; or they were withdrawn, since the run
                is over, which looks the same from a host with a directory of that name of its own.
        """
        with _READING:
            if self.path in _READ:
                return _READ[self.path]
            try:
                places, ordered = self._load()
            except FileNotFoundError:
                raise CannotWorkError(
                    f"a worker on {socket.gethostname()} does not see --local_scratch_dir "
                    f"{self._out}; put it on a file system that all workers share, under the same "
                    "path"
                ) from None
            except (ImportError, AttributeError) as error:
                raise CannotWorkError(
                    f"a worker on {socket.gethostname()} does not have what its orders need "
                    f"({error}); give all the same environment"
                ) from error
            if places is not None:
                places.check()
            # This process may have worked for another run, and the raw data changed since.
            close_archives()
            _READ[self.path] = ordered
            while len(_READ) > _KEPT:
                _READ.popitem(last=False)
            return ordered

    def _load(self) -> Any:
        content = self.path.read_bytes()
        if hashlib.sha256(content).hexdigest() != self.sha256:
            raise CannotWorkError(
                f"{self.path} is not what this run wrote; see who else can write there"
            )
        return pickle.loads(content)  # noqa: S301  # ours, as was just made sure


@contextmanager
def given(ordered: Any, lease: Lease, places: SharedPlaces | None, name: str) -> Iterator[Orders]:
    """Orders that can be read as long as this lasts.

    Args:
        ordered: anything that can be pickled.
        lease: of this run.
        places: what workers elsewhere must share with it; None: there are none elsewhere.
        name: what to call the file, one a phase of the run.
    """
    path = lease.failure.with_name(f"orders-{lease.failure.stem}-{name}.pickle")
    content = pickle.dumps((places, ordered))
    write_durably(path, content)
    try:
        yield Orders(path, lease, hashlib.sha256(content).hexdigest())
    finally:
        path.unlink(missing_ok=True)
        with _READING:
            _READ.pop(path, None)
