"""Bounds of control groups, in files as kernels write them and in a real group; schedulers'."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dataprep.system.job_limits import group_cores, scheduler_cores
from dataprep.system.memory import available

V2_MOUNT = "30 23 0:26 {root} {at} rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
V1_MOUNTS = (
    "25 31 0:23 / /sys/fs/cgroup ro,nosuid - tmpfs tmpfs ro,mode=755\n"
    "28 25 0:25 {root} /sys/fs/cgroup/memory rw,nosuid master:11 - cgroup cgroup rw,memory\n"
    "32 25 0:29 {root} {at} rw,nosuid,nodev,noexec,relatime master:15 - cgroup cgroup "
    "rw,cpu,cpuacct\n"
)
V1_GROUPS = "12:memory:{group}\n4:cpuacct,cpu:{group}\n1:name=systemd:{group}\n0::/\n"


GB = 10**9
_UNLIMITED = 9223372036854771712  # version 1's way to say so


class Machine:
    """A root directory with groups, and a process in one of them; 64 GB are available."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.proc = root / "proc" / "self"
        self.proc.mkdir(parents=True)
        (root / "proc/meminfo").write_text(f"MemTotal: 9 kB\nMemAvailable: {64 * GB // 1024} kB\n")

    def process(self, groups: str, mounts: str) -> None:
        (self.proc / "cgroup").write_text(groups)
        (self.proc / "mountinfo").write_text(f"22 1 8:1 / / rw - ext4 /dev/sda1 rw\n{mounts}")

    def unified(self, group: str, *, root: str = "/", at: str = "/sys/fs/cgroup") -> None:
        self.process(f"0::{group}\n", V2_MOUNT.format(root=root, at=at))

    def legacy(self, group: str, *, root: str = "/", at: str = "/sys/fs/cgroup/cpu") -> None:
        self.process(V1_GROUPS.format(group=group), V1_MOUNTS.format(root=root, at=at))

    def write(self, path: str, controller: str = "cpu", **files: object) -> None:
        directory = self.root / path
        directory.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (directory / f"{controller}.{name}").write_text(f"{text}\n")

    def quota(self) -> int | None:
        return group_cores(self.root)

    def memory(self) -> int:
        return available(self.root, {})


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


@pytest.mark.parametrize("mounts", ["", "1 2 3\n", "no dash here at all\n", " - cgroup2\n"])
def test_what_makes_no_sense_is_no_bound(machine: Machine, mounts: str) -> None:
    assert machine.quota() is None
    machine.process("0::\nnonsense\n:::\n", mounts)
    assert machine.quota() is None


def test_a_group_s_limit_counts_less_what_is_used_and_cannot_be_taken_back(
    machine: Machine,
) -> None:
    assert machine.memory() == 64 * GB // 1024 * 1024
    machine.unified("/system.slice/slurm/job_4711/step_0")
    stat = f"anon 1\nfile 5\ninactive_file {4 * GB}\nactive_file {GB}"
    job = "sys/fs/cgroup/system.slice/slurm/job_4711"
    machine.write(f"{job}/step_0", "memory", max=32 * GB, current=10 * GB, stat=stat)
    assert machine.memory() == 26 * GB
    machine.write(job, "memory", max="max", high=98 * GB, current=95 * GB)
    assert machine.memory() == 3 * GB
    machine.write(job, "memory", max=GB, current=2 * GB)
    assert machine.memory() == 0


def test_memory_of_version_1_is_understood(machine: Machine) -> None:
    machine.legacy("/slurm/uid_1/job_2")
    stat = f"inactive_file 7\ntotal_inactive_file {2 * GB}"
    memory = "sys/fs/cgroup/memory"
    machine.write(f"{memory}/slurm/uid_1/job_2", "memory", limit_in_bytes=8 * GB)
    machine.write(f"{memory}/slurm/uid_1/job_2", "memory", usage_in_bytes=5 * GB, stat=stat)
    machine.write(memory, "memory", limit_in_bytes=_UNLIMITED, usage_in_bytes=50 * GB)
    assert machine.memory() == 5 * GB


def test_memory_that_cannot_be_understood_is_no_bound(machine: Machine, tmp_path: Path) -> None:
    machine.unified("/")
    machine.write("sys/fs/cgroup", "memory", max="much", current="?")
    assert machine.memory() == 64 * GB // 1024 * 1024
    assert available(tmp_path / "nothing", {}) >= available() > 0


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
        "from dataprep.system.job_limits import group_cores\n"
        "print(group_cores())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert int(done.stdout) == min(2, group_cores() or 2)


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"SLURM_MEM_PER_NODE": "2048"}, 2048 << 20),
        ({"SLURM_MEM_PER_CPU": "1024", "SLURM_CPUS_ON_NODE": "4"}, 4 << 30),
        ({"SLURM_MEM_PER_CPU": "1024"}, 64 * GB),
        ({"SLURM_MEM_PER_NODE": "0"}, 64 * GB),
        ({"SLURM_MEM_PER_NODE": "999999"}, 64 * GB),
    ],
)
def test_what_slurm_gave_is_a_bound(
    machine: Machine, environ: dict[str, str], expected: int
) -> None:
    found = available(machine.root, environ)
    assert found == expected // 1024 * 1024


BATCH = {"SLURM_JOB_ID": "7", "SLURM_NODEID": "0"}
STEP = {**BATCH, "SLURM_STEP_ID": "0"}

# As Slurm 22.05 set them, with select/cons_tres and task/none, on nodes of 8 cores.
SLURM: dict[str, tuple[dict[str, str], int | None]] = {
    "a batch script of -n1 -c4": (
        {**BATCH, "SLURM_CPUS_ON_NODE": "4", "SLURM_CPUS_PER_TASK": "4"}
        | {"SLURM_TASKS_PER_NODE": "1"},
        4,
    ),
    "a batch script of -n4 -c2 has them all": (
        {**BATCH, "SLURM_CPUS_ON_NODE": "8", "SLURM_CPUS_PER_TASK": "2"}
        | {"SLURM_TASKS_PER_NODE": "4"},
        8,
    ),
    "a step of -n4 -c2": (
        {**STEP, "SLURM_CPUS_ON_NODE": "8", "SLURM_CPUS_PER_TASK": "2"}
        | {"SLURM_TASKS_PER_NODE": "4", "SLURM_STEP_TASKS_PER_NODE": "4"},
        2,
    ),
    "a step of -N2 -n5, the first node": (
        {**STEP, "SLURM_CPUS_ON_NODE": "4", "SLURM_STEP_TASKS_PER_NODE": "4,1"},
        1,
    ),
    "a step of one task in a job of -n5": (
        {**STEP, "SLURM_CPUS_ON_NODE": "5", "SLURM_STEP_TASKS_PER_NODE": "1"},
        5,
    ),
    "a step of unequal nodes, the last one": (
        {**STEP, "SLURM_NODEID": "3", "SLURM_CPUS_ON_NODE": "8"}
        | {"SLURM_STEP_TASKS_PER_NODE": "4(x3),2"},
        4,
    ),
    "a step with more tasks than cores": (
        {**STEP, "SLURM_CPUS_ON_NODE": "2", "SLURM_STEP_TASKS_PER_NODE": "8"},
        1,
    ),
    "a shared node of which a task is told too much": (
        {**STEP, "SLURM_CPUS_ON_NODE": "4", "SLURM_CPUS_PER_TASK": "16"},
        4,
    ),
    "an interactive step is a shell": (
        {**BATCH, "SLURM_STEP_ID": str(0xFFFFFFFA), "SLURM_CPUS_ON_NODE": "8"}
        | {"SLURM_CPUS_PER_TASK": "2", "SLURM_TASKS_PER_NODE": "4"},
        8,
    ),
    "salloc on a login node, -c4": ({"SLURM_JOB_ID": "7", "SLURM_CPUS_PER_TASK": "4"}, 4),
    "salloc on a login node": ({"SLURM_JOB_ID": "7", "SLURM_TASKS_PER_NODE": "4"}, None),
    "no job, but what is left of one": (
        {"SLURM_CPUS_PER_TASK": "4", "SLURM_CPUS_ON_NODE": "4"},
        None,
    ),
    "nonsense": ({**STEP, "SLURM_CPUS_ON_NODE": "many", "SLURM_CPUS_PER_TASK": "0"}, None),
}

OTHERS: dict[str, tuple[dict[str, str], int | None]] = {
    "PBS": ({"PBS_JOBID": "7.server", "NCPUS": "6"}, 6),
    "NCPUS outside of PBS": ({"NCPUS": "6"}, None),
    "LSF": ({"LSB_JOBID": "7", "LSB_MCPU_HOSTS": "node1 4"}, 4),
    "LSF with several hosts": (
        {"LSB_JOBID": "7", "LSB_MCPU_HOSTS": "node2.site 8 node1.site 3"},
        3,
    ),
    "LSF on a host that has no slots": ({"LSB_JOBID": "7", "LSB_MCPU_HOSTS": "node2 8"}, None),
    "LSF that binds": (
        {"LSB_JOBID": "7", "LSB_MCPU_HOSTS": "node1 1", "LSB_BIND_CPU_LIST": "0,1,2,3"},
        None,
    ),
    "nothing": ({}, None),
}


@pytest.mark.parametrize(
    ("environ", "cores"), [*SLURM.values(), *OTHERS.values()], ids=[*SLURM, *OTHERS]
)
def test_what_schedulers_say_of_a_process_s_cores(
    environ: dict[str, str], cores: int | None
) -> None:
    assert scheduler_cores(environ, "node1.cluster") == cores
