"""What control groups, in files and in a real one, and schedulers leave to a process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dataprep.system.job_limits import (
    available_memory,
    group_cores,
    one_thread_each,
    scheduler_cores,
)

GB = 10**9
_AVAILABLE = 64 * GB // 1024 * 1024
V1_GROUPS = "12:memory:{group}\n4:cpuacct,cpu:{group}\n1:name=systemd:{group}\n0::/\n"
ROOT = "sys/fs/cgroup"


class Machine:
    """A root directory with groups, and a process in one of them; 64 GB are available."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "proc" / "self").mkdir(parents=True)
        (root / "proc/meminfo").write_text(f"MemTotal: 9 kB\nMemAvailable: {64 * GB // 1024} kB\n")

    def process(self, groups: str) -> None:
        (self.root / "proc/self/cgroup").write_text(groups)

    def write(self, path: str, controller: str = "cpu", **files: object) -> None:
        directory = self.root / ROOT / path
        directory.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (directory / f"{controller}.{name}").write_text(f"{text}\n")

    def cores(self) -> int | None:
        return group_cores(self.root)

    def memory(self) -> int:
        return available_memory(self.root, {})


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.parametrize(
    ("text", "cores"),
    [
        *(("350000 100000", 4), ("1000 100000", 1), ("900000 100000", 6)),
        *((text, 6) for text in ("max 100000", "garbage", "100000 0", "")),
    ],
)
def test_the_quota_is_rounded_up_and_bound_by_that_of_the_group_above(
    machine: Machine, text: str, cores: int
) -> None:
    machine.process("0::/system.slice/job_7/step_0\n")
    machine.write("system.slice/job_7/step_0", max=text)
    machine.write("system.slice/job_7", max="600000 100000")
    machine.write("system.slice", max="900000 100000")
    machine.write("other", max="100000 100000")
    assert machine.cores() == cores


def test_version_1_has_two_files_and_minus_1(machine: Machine) -> None:
    machine.process(V1_GROUPS.format(group="/slurm/job_7"))
    machine.write("cpu/slurm/job_7", cfs_quota_us="-1", cfs_period_us="100")
    machine.write("memory/slurm", cfs_quota_us="100", cfs_period_us="100")
    assert machine.cores() is None
    machine.write("cpu/slurm", cfs_quota_us="250000", cfs_period_us="100000")
    assert machine.cores() == 3


@pytest.mark.parametrize("group", ["/docker/1f2e", "/", "/../../job"])
def test_in_a_container_the_group_is_at_the_mount_point(machine: Machine, group: str) -> None:
    machine.process(f"0::{group}\n")
    machine.write("", max="500000 100000")
    assert machine.cores() == 5
    machine.process(V1_GROUPS.format(group=group))
    machine.write("cpu", cfs_quota_us="300000", cfs_period_us="100000")
    assert machine.cores() == 3


def test_what_makes_no_sense_is_no_bound(machine: Machine, tmp_path: Path) -> None:
    assert machine.cores() is None
    machine.process("0::\nnonsense\n:::\n")
    machine.write("", "memory", max="much", current="?")
    assert machine.cores() is None
    assert machine.memory() == _AVAILABLE
    assert available_memory(tmp_path / "nothing", {}) >= available_memory() > 0


def test_a_group_s_limit_counts_less_what_is_used_and_cannot_be_taken_back(
    machine: Machine,
) -> None:
    machine.process("0::/slurm/job_4711/step_0\n")
    stat = f"anon 1\nfile 5\ninactive_file {4 * GB}\nactive_file {GB}"
    machine.write("slurm/job_4711/step_0", "memory", max=32 * GB, current=10 * GB, stat=stat)
    assert machine.memory() == 26 * GB
    machine.write("slurm/job_4711", "memory", max=GB, current=2 * GB)
    assert machine.memory() == 0


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
        ({"SLURM_MEM_PER_CPU": "1024"}, _AVAILABLE),
        ({"SLURM_MEM_PER_NODE": "0"}, _AVAILABLE),
    ],
)
def test_what_slurm_gave_is_a_bound(
    machine: Machine, environ: dict[str, str], expected: int
) -> None:
    assert available_memory(machine.root, environ) == expected


JOB = {"SLURM_JOB_ID": "7"}
STEP = {**JOB, "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_NODES": "2", "SLURM_STEP_NUM_TASKS": "5"}
LSF = {"LSB_JOBID": "7", "LSB_MCPU_HOSTS": "node2.site 8 node1.site 3"}

# As Slurm 22.05 set them, with select/cons_tres and task/none, on nodes of 8 cores.
JOBS: dict[str, tuple[dict[str, str], int | None]] = {
    "a batch script has all": ({**JOB, "SLURM_CPUS_ON_NODE": "8", "SLURM_CPUS_PER_TASK": "2"}, 8),
    "a step of -c2": ({**STEP, "SLURM_CPUS_ON_NODE": "8", "SLURM_CPUS_PER_TASK": "2"}, 2),
    "a step of -N2 -n5": ({**STEP, "SLURM_CPUS_ON_NODE": "6"}, 2),
    "more tasks than cores": ({**STEP, "SLURM_CPUS_ON_NODE": "2"}, 1),
    "told too much": ({**STEP, "SLURM_CPUS_ON_NODE": "4", "SLURM_CPUS_PER_TASK": "16"}, 4),
    "an interactive step is a shell": (
        {**STEP, "SLURM_STEP_ID": str(0xFFFFFFFA), "SLURM_CPUS_ON_NODE": "8"},
        8,
    ),
    "salloc on a login node, -c4": ({**JOB, "SLURM_CPUS_PER_TASK": "4"}, 4),
    "salloc on a login node": (JOB, None),
    "what is left of a job": ({"SLURM_CPUS_PER_TASK": "4", "SLURM_CPUS_ON_NODE": "4"}, None),
    "nonsense": ({**STEP, "SLURM_CPUS_ON_NODE": "many", "SLURM_CPUS_PER_TASK": "0"}, None),
    "PBS": ({"PBS_JOBID": "7.server", "NCPUS": "6"}, 6),
    "NCPUS outside of PBS": ({"NCPUS": "6"}, None),
    "LSF": (LSF, 3),
    "LSF on a host that has no slots": ({**LSF, "LSB_MCPU_HOSTS": "node2 8"}, None),
    "LSF that binds": ({**LSF, "LSB_BIND_CPU_LIST": "0,1,2,3"}, None),
}


@pytest.mark.parametrize(("environ", "cores"), JOBS.values(), ids=list(JOBS))
def test_what_schedulers_say_of_a_process_s_cores(
    environ: dict[str, str], cores: int | None
) -> None:
    assert scheduler_cores(environ, "node1.cluster") == cores


# --- threads ---

_THREADS = """
import numpy
print([line.split()[1] for line in open("/proc/self/status") if line.startswith("Threads:")][0])
"""
_BY_COMMAND_LINE = """
import sys
from dataprep.cli import entry_point
sys.argv[1:] = ["--version"]
assert entry_point() == 0
"""


def threads(code: str) -> int:
    """Of a process that runs this and then imports numpy."""
    environ = {
        name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")
    }
    done = subprocess.run(
        [sys.executable, "-c", code + _THREADS],
        env=environ,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return int(done.stdout.splitlines()[-1])


def test_numpy_starts_no_threads_behind_the_command_line() -> None:
    if threads("") == 1:
        pytest.skip("numpy starts no threads here anyway: one core, or another BLAS")
    assert threads(_BY_COMMAND_LINE) == 1


@pytest.mark.parametrize(
    ("environ", "threads"),
    [
        ({}, "1"),
        ({"OMP_NUM_THREADS": "3"}, "3"),
        # What PBS sets in every job is nobody's wish.
        ({"PBS_JOBID": "7.server", "NCPUS": "128", "OMP_NUM_THREADS": "128"}, "1"),
        ({"PBS_JOBID": "7.server", "NCPUS": "128", "OMP_NUM_THREADS": "2"}, "2"),
    ],
)
def test_libraries_get_one_thread_unless_the_user_said_more(
    environ: dict[str, str], threads: str
) -> None:
    one_thread_each(environ)
    assert environ["OMP_NUM_THREADS"] == threads
