"""What a path is on, by lists of mounts as the kernel writes them; and node-local scratch."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from dataprep.system import filesystems
from dataprep.system.filesystems import (
    filesystem_of,
    node_local_scratch,
    scratch_conventions,
    space_of,
)

# As on a login node: nested mounts, one on top of another, blanks and a backslash in names, lines
# with and without optional fields.
_MOUNTS = """
22 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw
23 22 0:21 / /proc rw,nosuid shared:5 - proc proc rw
40 22 0:40 / /lustre rw,relatime - lustre 10.0.0.1@o2ib:/scratch rw,flock
41 40 0:41 / /lustre/local rw - tmpfs tmpfs rw,size=1024k
42 22 0:42 /export/home /home rw shared:9 master:3 propagate_from:2 - nfs4 server:/home rw
43 22 0:43 / /home2 rw - xfs /dev/sdb1 rw
44 22 0:44 / /over rw - ext4 /dev/sdc1 rw
45 44 0:45 / /over rw - beegfs beegfs_nodev rw
46 22 0:46 / /my\\040data\\134here rw - fuse.sshfs host:/data rw
47 22 0:47 / /gluster rw - fuse.glusterfs server:/volume rw
48 22 0:48 / /Grüße\u00a0\u2028aus rw - ceph 10.0.0.2:/ rw
49 22 0:49 / /disk rw - fuse.ntfs-3g /dev/sdd1 rw
this line is broken
50 22 0:50 /
"""


@pytest.fixture
def mounts(tmp_path: Path) -> Path:
    path = tmp_path / "mountinfo"
    path.write_text(_MOUNTS)
    return path


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "ext4"),
        ("/anywhere/else", "ext4"),
        ("/lustre", "lustre"),
        ("/lustre/project/out", "lustre"),
        ("/lustre/local/out", "tmpfs"),
        ("/lustre/../lustre/project", "lustre"),
        ("/lustre2/out", "ext4"),  # begins like a mount, but is none
        ("/home/me", "nfs4"),
        ("/home2/me", "xfs"),
        ("/over/out", "beegfs"),  # the one mounted last hides the other
        ("/Grüße\u00a0\u2028aus/out", "ceph"),
        ("/my data\\here/out", "fuse.sshfs"),
    ],
)
def test_the_mount_that_is_nearest_counts(mounts: Path, path: str, kind: str) -> None:
    assert filesystem_of(Path(path), mounts) == kind


@pytest.mark.skipif(shutil.which("stat") is None, reason="stat (coreutils) is not installed")
@pytest.mark.parametrize("place", ["/proc", "/dev/shm", "/sys"])
def test_the_type_is_the_one_that_stat_shows(place: str) -> None:
    done = subprocess.run(["stat", "-f", "-c", "%T", place], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"stat knows nothing of {place}")
    assert filesystem_of(Path(place, "no such", "name")) == done.stdout.strip()


# --- room ---


def test_room_is_told_of_a_path_and_of_a_descriptor(tmp_path: Path) -> None:
    free, block = space_of(tmp_path)
    assert free > 0
    assert block >= 512
    assert free % block == 0
    descriptor = os.open(tmp_path, os.O_RDONLY)
    try:
        assert space_of(descriptor).block == block
    finally:
        os.close(descriptor)


# --- node-local scratch ---


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """No variable is set, and the system's temporary directory is ``tmp``."""
    for name in (*filesystems.SCRATCH_VARIABLES, "TMPDIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(filesystems, "_BURST_BUFFER", tmp_path / "bb")
    monkeypatch.setattr(filesystems, "_LOCAL", tmp_path / "none")
    for name in ("slurm", "tmp"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(filesystems, "_TMP", tmp_path / "tmp")
    return monkeypatch


def test_what_is_not_there_or_on_a_network_is_passed_over(
    tmp_path: Path, scratch: pytest.MonkeyPatch
) -> None:
    scratch.setenv("DATAPREP_SCRATCH", str(tmp_path / "none"))
    scratch.setenv("SLURM_TMPDIR", str(tmp_path / "slurm"))
    assert node_local_scratch() == tmp_path / "slurm"
    scratch.setattr(
        filesystems, "filesystem_of", lambda path: "nfs4" if path.name == "slurm" else "ext4"
    )
    assert node_local_scratch() == tmp_path / "tmp"
    scratch.setattr(filesystems, "filesystem_of", lambda path: "lustre")
    assert node_local_scratch() is None


def test_conventions_are_listed_from_the_most_explicit_to_what_every_machine_has() -> None:
    names = ("TMPDIR", "PBS_JOBFS", "LOCAL_SCRATCH", "SLURM_TMPDIR", "DATAPREP_SCRATCH")
    found = scratch_conventions({name: f"/{name.lower()}" for name in names})
    named = ["$DATAPREP_SCRATCH", "$SLURM_TMPDIR", "$LOCAL_SCRATCH", "$PBS_JOBFS"]
    others = [f"/mnt/bb/{filesystems.user_name()}", "$TMPDIR", "/local/scratch", "/tmp"]
    assert [scratch.why for scratch in found] == named + others
    assert [scratch.promised for scratch in found] == [True] * 4 + [False] * 4
    # The temporary directory that every machine has says nothing of the site.
    whys = [scratch.why for scratch in scratch_conventions({"TMPDIR": "/tmp"})]
    assert whys[-2:] == ["/local/scratch", "/tmp"]
    assert "$TMPDIR" not in whys


def test_directories_may_be_thousands_deep(tmp_path: Path) -> None:
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(1500):  # each in the one before; of a path too long none is made
        os.mkdir("d", dir_fd=here)
        above, here = here, os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(above)
    os.close(here)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "file").touch()
    (tmp_path / "b" / "link").symlink_to(tmp_path)
    (tmp_path / "hidden").mkdir()
    found = []
    for place, entries in filesystems.walk(
        tmp_path, lambda it: it.is_dir(follow_symlinks=False) and it.name != "hidden"
    ):
        found.append((place, sorted(entry.name for entry in entries)))
    assert found[0] == ("", ["b", "d", "hidden"])
    assert ("b", ["file", "link"]) in found
    assert ("d/d", ["d"]) in found
    assert len(found) == 2 + 1500
    for place, _ in sorted(found, reverse=True):  # of which others make an error
        if place.startswith("d"):
            (tmp_path / place).rmdir()
