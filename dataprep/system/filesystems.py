"""What a path is on, how much room there is, and where node-local storage is."""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from dataprep.errors import StagingError
from dataprep.system.site import site, site_file

_MOUNTS = Path("/proc/self/mountinfo")

# As the kernel calls them; FUSE's carry their server's name behind a dot, and some are known by
# that alone.
_NETWORK = re.compile(
    r"(fuse\.)?(9p|afs|beegfs|ceph|cifs|dvs|fhgfs|glusterfs|gpfs|lustre|ncpfs|nfs4?|orangefs|panfs"
    r"|pvfs2|smb3|smbfs|wekafs)"
    r"|fuse\.(daos|dfuse|gcsfuse|juicefs|mountpoint-s3|rclone|s3fs|sshfs)"
)
_MEMORY = frozenset({"tmpfs", "ramfs"})

# Sites' conventions, the most explicit first.
SCRATCH_VARIABLES = ("DATAPREP_SCRATCH", "SLURM_TMPDIR", "LOCAL_SCRATCH", "PBS_JOBFS")
_TMP = Path("/tmp")  # noqa: S108  # only ever used with a directory of one's own in it
_BURST_BUFFER = Path("/mnt/bb")  # OLCF: one directory a user
_LOCAL = Path("/local/scratch")  # ALCF


class Space(NamedTuple):
    """Room on a file system, as an ordinary user has it; quotas cannot be seen."""

    free: int  # bytes
    block: int  # bytes; every file takes a multiple of them


class Scratch(NamedTuple):
    """A place where sites have their node-local storage."""

    why: str  # what names it, for messages: ``$SLURM_TMPDIR``, ``/tmp``
    path: Path  # the directory; it need not exist
    promised: bool  # whether a variable says so that means nothing else


def filesystem_of(path: Path, mounts: Path = _MOUNTS) -> str:
    """The type of the file system that ``path`` is, or would be, on: ``ext4``, ``lustre``.

    Args:
        path: need not exist.
        mounts: a list in the format of proc(5), ``/proc/pid/mountinfo``.

    Returns:
        The type; empty if it cannot be told.
    """
    place = Path(os.path.realpath(path))
    os.access(place, os.F_OK)  # an automounter mounts it now
    try:
        lines = os.fsdecode(mounts.read_bytes()).split("\n")
    except OSError:
        return ""
    nearest, kind = Path(), ""
    for line in lines:
        before, _, after = line.partition(" - ")
        fields = before.split(" ")  # no other blank: names may hold those
        if not after or len(fields) < 5:
            continue
        # Blanks and the like in a mount's name are written as three octal digits.
        name = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), fields[4])
        # Of mounts on the same place the last one listed is on top.
        if place.is_relative_to(name) and len(Path(name).parts) >= len(nearest.parts):
            nearest, kind = Path(name), after.partition(" ")[0]
    return kind


def is_network(kind: str) -> bool:
    """Whether files of this file system type are on another machine."""
    return _NETWORK.fullmatch(kind) is not None


def is_memory(kind: str) -> bool:
    """Whether files of this file system type take memory."""
    return kind in _MEMORY


def space_of(place: int | Path) -> Space:
    """The room on the file system that a path, or what a descriptor is open on, is on.

    Raises:
        StagingError: it cannot be told.
    """
    try:
        status = os.statvfs(place)
    except OSError as error:
        where = f"descriptor {place}" if isinstance(place, int) else str(place)
        raise StagingError(
            f"{where}: free space cannot be told: {error.strerror or error}; check this node's "
            "storage"
        ) from error
    block = status.f_frsize or status.f_bsize
    return Space(status.f_bavail * block, block)


def scratch_conventions(environment: Mapping[str, str] = os.environ) -> list[Scratch]:
    """Where node-local storage may be, the likeliest place first; nothing is checked.

    Raises:
        UsageError: the site's defaults are none.
    """
    named = [
        Scratch(f"${name}", Path(environment[name]), True)
        for name in SCRATCH_VARIABLES
        if environment.get(name)
    ]
    here, known = site(), {"USER": user_name(), **environment}
    for text in here.scratch if here else ():
        path = re.sub(r"\$(\w+)", lambda name: known.get(name[1]) or name[0], text)
        if "$" not in path:  # a variable that only jobs have
            named.append(Scratch(f"scratch of {site_file()}", Path(path), False))
    temporary = Path(environment.get("TMPDIR") or _TMP)
    places = (_BURST_BUFFER / user_name(), _LOCAL, _TMP)
    found = [Scratch(str(place), place, False) for place in places]
    if temporary != _TMP:  # what every machine has says nothing of the site
        found.insert(1, Scratch("$TMPDIR", temporary, False))
    return named + found


def user_name() -> str:
    """Who runs this; the number of a user that has no name here, as in containers."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def scratch_places() -> list[Path]:
    """Directories that may be node-local storage, by sites' conventions, the likeliest first."""
    # Not Path.is_dir, which raises where one may not look.
    return [place.path for place in scratch_conventions() if os.path.isdir(place.path)]  # noqa: PTH112  # see above


def node_local_scratch() -> Path | None:
    """A writable directory on this machine's own storage; None if there is none."""
    for place in scratch_places():
        if os.access(place, os.W_OK) and not is_network(filesystem_of(place)):
            return place
    return None


def walk(
    top: Path,
    enter: Callable[[os.DirEntry[str]], bool] = lambda it: it.is_dir(follow_symlinks=False),
    failed: Callable[[str, OSError], None] = lambda _path, _error: None,
) -> Iterator[tuple[str, list[os.DirEntry[str]]]]:
    """Every directory from one on down, by its path from there, and its entries.

    Args:
        enter: whether what an entry is of is to be looked into.
        failed: is told of those that cannot be read, which are passed over.
    """
    waiting = [""]
    while waiting:
        below = waiting.pop()
        try:
            with os.scandir(os.path.join(top, below)) as found:  # noqa: PTH118  # of very many
                entries = list(found)
        except OSError as error:
            failed(below, error)
            continue
        yield below, entries
        prefix = f"{below}/" if below else ""
        waiting += [prefix + entry.name for entry in reversed(entries) if enter(entry)]
