"""What a worker elsewhere must have in common with the launcher: files, and programs.

The same bytes come out wherever a shard is made only if the same libraries make them; and a worker
that does not see the output directory would write its shards somewhere else.
"""

from __future__ import annotations

import platform
import socket
import sys
import zlib
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, entry_points, version
from pathlib import Path

from dataprep.errors import PipelineError

# What has a part in the bytes of a shard besides `codec_versions`, or in graphs sent to workers.
_PACKAGES = (
    *("dataprep", "apache-beam", "numpy", "h5py", "lmdb", "protobuf", "msgpack", "google-crc32c"),
)
_PLUGINS = ("dataprep.sinks", "dataprep.datasets")


class CannotWorkError(PipelineError):
    """This worker cannot work for that run, whatever it is given; others may."""


@cache
def programs() -> dict[str, str]:
    """The versions of all that has a part in the bytes: here, in this process."""
    from dataprep.images import codec_versions

    found = {name: _version(name) for name in _PACKAGES} | codec_versions()
    for group in _PLUGINS:
        for entry in entry_points(group=group):
            if entry.dist is not None:
                found[entry.dist.name] = entry.dist.version
    found["Python"] = ".".join(platform.python_version_tuple()[:2])
    found["Python's zlib"] = zlib.ZLIB_RUNTIME_VERSION
    found["the machine"] = platform.machine()
    return found


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"


@dataclass(frozen=True, slots=True)
class SharedPlaces:
    """What workers must share with the launcher.

    Attributes:
        out: the output directory, as the launcher names it.
        raw: the raw data.
        witness: a file in the output directory that only this run has.
        others: further directories that were asked for, by the options that name them.
        programs: what the launcher runs; see `described`.
    """

    out: Path
    raw: Path
    witness: Path
    others: tuple[tuple[str, Path], ...] = ()
    programs: dict[str, str] = field(default_factory=dict)

    def described(self) -> SharedPlaces:
        """The same, with what this process runs, for workers elsewhere to compare."""
        return replace(self, programs=programs())

    def check(self) -> None:
        """Whether this process, wherever it is, may work for the launcher.

        Raises:
            CannotWorkError: it may not; the message says why, and on which host.
        """
        host = socket.gethostname()
        for option, place, path in (
            ("--local_scratch_dir", self.out, self.witness),
            ("--raw_data_dir", self.raw, self.raw),
            *((option, path, path) for option, path in self.others),
        ):
            if not path.exists():
                remedy = (
                    "make it on every worker's host"
                    if option == "--build_dir"
                    else "put it on a file system that all workers share, under the same path"
                )
                raise CannotWorkError(f"a worker on {host} does not see {option} {place}; {remedy}")
        own = programs()
        for name, there in sorted(self.programs.items()):
            here = own.get(name, "none")
            if here != there:
                raise CannotWorkError(
                    f"a worker on {host} has {name} {here}, this command has {there}; the bytes "
                    f"could differ: give all the same environment (the worker's is {sys.prefix})"
                )
