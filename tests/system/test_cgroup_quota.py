"""The quota of control groups, in files as kernels write them, and in a real group."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dataprep.system.cgroup_quota import quota

V2_MOUNT = "30 23 0:26 {root} {at} rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
V1_MOUNTS = (
    "25 31 0:23 / /sys/fs/cgroup ro,nosuid - tmpfs tmpfs ro,mode=755\n"
    "28 25 0:25 {root} /sys/fs/cgroup/memory rw,nosuid master:11 - cgroup cgroup rw,memory\n"
    "32 25 0:29 {root} {at} rw,nosuid,nodev,noexec,relatime master:15 - cgroup cgroup "
    "rw,cpu,cpuacct\n"
)
V1_GROUPS = "12:memory:{group}\n4:cpuacct,cpu:{group}\n1:name=systemd:{group}\n0::/\n"


class Machine:
    """A root directory with groups, and a process in one of them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.proc = root / "proc" / "4711"
        self.proc.mkdir(parents=True)

    def process(self, groups: str, mounts: str) -> None:
        (self.proc / "cgroup").write_text(groups)
        (self.proc / "mountinfo").write_text(f"22 1 8:1 / / rw - ext4 /dev/sda1 rw\n{mounts}")

    def unified(self, group: str, *, root: str = "/", at: str = "/sys/fs/cgroup") -> None:
        self.process(f"0::{group}\n", V2_MOUNT.format(root=root, at=at))

    def legacy(self, group: str, *, root: str = "/", at: str = "/sys/fs/cgroup/cpu") -> None:
        self.process(V1_GROUPS.format(group=group), V1_MOUNTS.format(root=root, at=at))

    def write(self, path: str, **files: str) -> None:
        directory = self.root / path
        directory.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (directory / f"cpu.{name}").write_text(f"{text}\n")

    def quota(self) -> int | None:
        return quota(self.proc, self.root)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.parametrize(
    ("text", "cores"),
    [
        ("400000 100000", 4),
        ("350000 100000", 4),
        ("150000 100000", 2),
        ("1000 100000", 1),
        ("25000 50000", 1),
        ("max 100000", None),
        ("garbage", None),
        ("100000 0", None),
        ("", None),
    ],
)
def test_the_quota_is_rounded_up_to_whole_cores(
    machine: Machine, text: str, cores: int | None
) -> None:
    machine.unified("/user.slice/job_1")
    machine.write("sys/fs/cgroup/user.slice/job_1", max=text)
    assert machine.quota() == cores


def test_a_group_is_bound_by_those_above_it(machine: Machine) -> None:
    machine.unified("/system.slice/slurmstepd.scope/job_7/step_0")
    machine.write("sys/fs/cgroup/system.slice/slurmstepd.scope/job_7/step_0", max="max 100000")
    machine.write("sys/fs/cgroup/system.slice/slurmstepd.scope/job_7", max="600000 100000")
    machine.write("sys/fs/cgroup/system.slice", max="900000 100000")
    machine.write("sys/fs/cgroup/other", max="100000 100000")
    assert machine.quota() == 6


def test_version_1_has_two_files_and_minus_1(machine: Machine) -> None:
    machine.legacy("/slurm/uid_1000/job_7")
    machine.write("sys/fs/cgroup/cpu/slurm/uid_1000/job_7", cfs_quota_us="-1", cfs_period_us="100")
    machine.write("sys/fs/cgroup/memory/slurm", cfs_quota_us="100", cfs_period_us="100")
    assert machine.quota() is None
    machine.write("sys/fs/cgroup/cpu/slurm", cfs_quota_us="250000", cfs_period_us="100000")
    assert machine.quota() == 3


def test_where_both_versions_are_mounted_the_one_with_the_controller_counts(
    machine: Machine,
) -> None:
    mounts = V1_MOUNTS.format(root="/", at="/sys/fs/cgroup/cpu")
    mounts += V2_MOUNT.format(root="/", at="/sys/fs/cgroup/unified")
    machine.process("4:cpu,cpuacct:/box\n0::/elsewhere\n", mounts)
    machine.write("sys/fs/cgroup/unified/elsewhere", stat="usage_usec 1")
    machine.write("sys/fs/cgroup/cpu/box", cfs_quota_us="200000", cfs_period_us="100000")
    assert machine.quota() == 2


@pytest.mark.parametrize(
    ("group", "root"),
    [
        ("/docker/1f2e", "/docker/1f2e"),  # as the host knows it
        ("/", "/"),  # in a namespace of its own
        ("/../../job", "/"),  # outside of what can be seen
        ("/not/mounted/here", "/docker/1f2e"),
    ],
)
def test_in_a_container_the_group_is_at_the_mount_point(
    machine: Machine, group: str, root: str
) -> None:
    for set_up, files in (
        (machine.unified, {"max": "500000 100000"}),
        (machine.legacy, {"cfs_quota_us": "500000", "cfs_period_us": "100000"}),
    ):
        at = f"/sys/fs/{set_up.__name__}"
        set_up(group, root=root, at=at)
        machine.write(at[1:], **files)
        assert machine.quota() == 5


def test_a_group_below_what_is_mounted_is_found_there(machine: Machine) -> None:
    machine.unified("/pod/box/inner", root="/pod/box")
    machine.write("sys/fs/cgroup/inner", max="300000 100000")
    machine.write("sys/fs/cgroup/pod/box/inner", max="100000 100000")
    assert machine.quota() == 3


def test_a_mount_point_with_a_blank_is_understood(machine: Machine) -> None:
    machine.unified("/", at="/sys/fs/c\\040group")
    machine.write("sys/fs/c group", max="300000 100000")
    assert machine.quota() == 3


@pytest.mark.parametrize("mounts", ["", "1 2 3\n", "no dash here at all\n", " - cgroup2\n"])
def test_what_makes_no_sense_is_no_bound(machine: Machine, mounts: str) -> None:
    assert machine.quota() is None
    machine.process("0::\nnonsense\n:::\n", mounts)
    assert machine.quota() is None


@pytest.fixture
def real_group() -> Iterator[Path]:
    """A new control group of this machine with 1.5 cores."""
    below = (
        (Path("/sys/fs/cgroup"), "cpu.max", "150000 100000"),
        (Path("/sys/fs/cgroup/cpu"), "cpu.cfs_quota_us", "150000"),
        (Path("/sys/fs/cgroup/cpu,cpuacct"), "cpu.cfs_quota_us", "150000"),
    )
    for parent, name, text in below:
        group = parent / f"dataprep-test-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            if (group / name).exists():
                (group / name).write_text(text)
                yield group
                return
        finally:
            group.rmdir()
    pytest.skip("no control group for processor time can be made here: that takes root")


def test_a_process_in_a_real_group_finds_its_quota(real_group: Path) -> None:
    code = (
        f"open({str(real_group / 'cgroup.procs')!r}, 'w').write('0')\n"
        "from dataprep.system.cgroup_quota import quota\n"
        "print(quota())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert int(done.stdout) == min(2, quota() or 2)
