"""What a path is on: the kernel's own list of mounts, and where node-local storage is."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

_MOUNTS = Path("/proc/self/mountinfo")

# As the kernel calls them; FUSE's carry their server's name behind a dot.
_NETWORK = frozenset(
    {
        "9p",
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "dvs",
        "fhgfs",
        "glusterfs",
        "gpfs",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs4",
        "orangefs",
        "panfs",
        "pvfs2",
        "smb3",
        "smbfs",
        "wekafs",
    }
)

# The order in which sites' conventions are tried, the most explicit first.
_SCRATCH_VARIABLES = ("DATAPREP_SCRATCH", "SLURM_TMPDIR", "LOCAL_SCRATCH", "PBS_JOBFS", "TMPDIR")


def filesystem_of(path: Path, mounts: Path = _MOUNTS) -> str:
    """The type of the file system that ``path`` is, or would be, on: ``ext4``, ``lustre``.

    Args:
        path: need not exist.
        mounts: the kernel's list, in the format of proc(5), ``/proc/pid/mountinfo``.

    Returns:
        The type; empty if it cannot be told.
    """
    try:
        lines = os.fsdecode(mounts.read_bytes()).split("\n")
    except OSError:
        return ""
    place = path.resolve()
    found, kind = Path(), ""
    for line in lines:
        before, _, after = line.partition(" - ")
        fields = before.split(" ")  # no other blank: names may hold those
        if not after or len(fields) < 5:
            continue
        mount = Path(_unescaped(fields[4]))
        # Of mounts on the same place the last one listed is on top.
        if (mount == place or mount in place.parents) and len(mount.parts) >= len(found.parts):
            found, kind = mount, after.partition(" ")[0]
    return kind


def is_network(kind: str) -> bool:
    """Whether files of this file system type are on another machine."""
    return kind.removeprefix("fuse.") in _NETWORK or kind in ("fuse.sshfs", "fuse.s3fs")


def scratch_places() -> list[Path]:
    """Directories that may be node-local storage, by sites' conventions, the likeliest first."""
    named = [os.environ[name] for name in _SCRATCH_VARIABLES if os.environ.get(name)]
    return [place for place in map(Path, [*named, tempfile.gettempdir()]) if place.is_dir()]


def node_local_scratch() -> Path | None:
    """A writable directory on this machine's own storage; None if there is none."""
    for place in scratch_places():
        if os.access(place, os.W_OK) and not is_network(filesystem_of(place)):
            return place
    return None


def _unescaped(text: str) -> str:
    """Blanks and the like in a mount's name are written as three octal digits."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
