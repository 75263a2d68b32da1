"""What a path is on: asked of the kernel; how much room there is; where node-local storage is."""

from __future__ import annotations

import ctypes
import os
import pwd
import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from dataprep.errors import StagingError

_MOUNTS = Path("/proc/self/mountinfo")

# As the kernel calls them; FUSE's carry their server's name behind a dot, and some are known by
# that alone.
_NETWORK = re.compile(
    r"(fuse\.)?(9p|afs|beegfs|ceph|cifs|dvs|fhgfs|glusterfs|gpfs|lustre|ncpfs|nfs4?|orangefs|panfs"
    r"|pvfs2|smb3|smbfs|wekafs)"
    r"|fuse\.(daos|dfuse|gcsfuse|juicefs|mountpoint-s3|rclone|s3fs|sshfs)"
)
_MEMORY = frozenset({"tmpfs", "ramfs"})

# statfs(2)'s f_type, and the types as the list of mounts names them; the first one stands for
# those of which the list says nothing. Lustre: lustre_user.h; GPFS, BeeGFS: their clients; the
# others: linux/magic.h.
_MAGIC = {
    0x0BD00BD0: ("lustre",),
    0x47504653: ("gpfs",),
    0x19830326: ("beegfs", "fhgfs"),
    0xAAD7AAEA: ("panfs",),
    0x00C36400: ("ceph",),
    0x00006969: ("nfs", "nfs4"),
    0x20030528: ("orangefs", "pvfs2"),
    0x0000517B: ("smbfs",),
    0xFF534D42: ("cifs",),
    0xFE534D42: ("smb3", "cifs"),
    0x5346414F: ("afs",),
    0x01021997: ("9p",),
    0x01021994: ("tmpfs", "devtmpfs"),
    0x858458F6: ("ramfs",),
    0x794C7630: ("overlay",),
    0x0000EF53: ("ext4", "ext3", "ext2"),
    0x58465342: ("xfs",),
    0x9123683E: ("btrfs",),
    0x2FC12FC1: ("zfs",),
}
_MAGIC_FUSE = 0x65735546  # says nothing of the server behind it

# Sites' conventions, the most explicit first.
SCRATCH_VARIABLES = ("DATAPREP_SCRATCH", "SLURM_TMPDIR", "LOCAL_SCRATCH", "PBS_JOBFS")
_TMP = Path("/tmp")  # noqa: S108  # only ever used with a directory of one's own in it
_BURST_BUFFER = Path("/mnt/bb")  # OLCF: one directory a user
_LOCAL = Path("/local/scratch")  # ALCF


class Space(NamedTuple):
    """Room on a file system, as an ordinary user has it; quotas cannot be seen.

    Attributes:
        free: bytes.
        block: bytes; every file takes a multiple of them.
    """

    free: int
    block: int


class Scratch(NamedTuple):
    """A place where sites have their node-local storage.

    Attributes:
        why: what names it, for messages: ``$SLURM_TMPDIR``, ``/tmp``.
        path: the directory; it need not exist.
        promised: whether a variable says so that means nothing else.
    """

    why: str
    path: Path
    promised: bool


def filesystem_of(path: Path, mounts: Path | None = None) -> str:
    """The type of the file system that ``path`` is, or would be, on: ``ext4``, ``lustre``.

    statfs(2) is believed where it knows the type: mounts can be missing from the list in
    containers, or not have happened yet (autofs). The list tells what statfs does not know.

    Args:
        path: need not exist.
        mounts: a list in the format of proc(5), ``/proc/pid/mountinfo``, that is believed
            instead of the kernel.

    Returns:
        The type; empty if it cannot be told.
    """
    place = Path(os.path.realpath(path))
    if mounts is not None:
        return _listed(place, mounts)
    magic = _magic_of(place)  # first, for it has the place mounted
    listed = _listed(place, _MOUNTS)
    if magic == _MAGIC_FUSE:
        return listed or "fuse"
    names = _MAGIC.get(magic, ())
    return listed if listed in names or not names else names[0]


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


def scratch_conventions(
    environment: Mapping[str, str] = os.environ, last: Path | None = None
) -> list[Scratch]:
    """Where node-local storage may be, the likeliest place first; nothing is checked.

    Args:
        environment: the variables.
        last: the place that every machine has; ``/tmp`` if None.
    """
    last = last or _TMP
    named = [
        Scratch(f"${name}", Path(environment[name]), True)
        for name in SCRATCH_VARIABLES
        if environment.get(name)
    ]
    burst_buffer = _BURST_BUFFER / user_name()
    temporary = Path(environment.get("TMPDIR") or _TMP)
    return [
        *named,
        Scratch(str(burst_buffer), burst_buffer, False),
        # What every machine has says nothing of the site.
        *([Scratch("$TMPDIR", temporary, False)] if temporary != _TMP else []),
        Scratch(str(_LOCAL), _LOCAL, False),
        Scratch(str(last), last, False),
    ]


def user_name() -> str:
    """Who runs this; the number of a user that has no name here, as in containers."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def scratch_places() -> list[Path]:
    """Directories that may be node-local storage, by sites' conventions, the likeliest first."""
    conventions = scratch_conventions(os.environ, Path(tempfile.gettempdir()))
    # Not Path.is_dir, which raises where one may not look.
    return [place.path for place in conventions if os.path.isdir(place.path)]  # noqa: PTH112  # see above


def node_local_scratch() -> Path | None:
    """A writable directory on this machine's own storage; None if there is none."""
    for place in scratch_places():
        if os.access(place, os.W_OK) and not is_network(filesystem_of(place)):
            return place
    return None


def _magic_of(place: Path) -> int:
    """statfs(2)'s f_type of ``place``, or of what is there of its parents; -1 if unknown.

    Python's os.statvfs leaves it out.
    """
    if sys.platform != "linux":
        return -1
    libc = ctypes.CDLL(None)
    status = ctypes.create_string_buffer(512)  # more than any struct statfs; f_type is first
    for parent in (place, *place.parents):
        if libc.statfs(os.fsencode(parent), status) == 0:
            return ctypes.c_long.from_buffer(status).value & 0xFFFFFFFF
    return -1


def _listed(place: Path, mounts: Path) -> str:
    """The type of the mount that ``place`` is below, by a list."""
    try:
        lines = os.fsdecode(mounts.read_bytes()).split("\n")
    except OSError:
        return ""
    found, kind = Path(), ""
    for line in lines:
        before, _, after = line.partition(" - ")
        fields = before.split(" ")  # no other blank: names may hold those
        if not after or len(fields) < 5:
            continue
        mount = Path(unescaped(fields[4]))
        # Of mounts on the same place the last one listed is on top.
        if (mount == place or mount in place.parents) and len(mount.parts) >= len(found.parts):
            found, kind = mount, after.partition(" ")[0]
    return kind


def unescaped(text: str) -> str:
    """Blanks and the like in a mount's name are written as three octal digits."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
