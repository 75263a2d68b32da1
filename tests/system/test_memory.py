"""Memory that is left, by trees of files like the kernel's."""

from __future__ import annotations

from pathlib import Path

import pytest

from dataprep.system.memory import available

GB = 10**9
_UNLIMITED = 9223372036854771712  # version 1's way to say so

_V2 = "30 23 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw,nsdelegate"
_V2_HYBRID = "31 23 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw"
_V1 = "32 23 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory"
_V1_CPU = "33 23 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct"
_ROOT = "22 1 259:2 / / rw - ext4 /dev/nvme0n1p2 rw"


class Machine:
    """A machine made of files; 64 GB are available."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (self.proc / "self").mkdir(parents=True)
        self.meminfo(64 * GB)

    @property
    def proc(self) -> Path:
        return self.root / "proc"

    def meminfo(self, left: int) -> None:
        (self.proc / "meminfo").write_text(f"MemTotal: 99 kB\nMemAvailable: {left // 1024} kB\n")

    def says(self, cgroup: str, *mounts: str) -> None:
        (self.proc / "self/cgroup").write_text(cgroup)
        (self.proc / "self/mountinfo").write_text("\n".join([_ROOT, *mounts, ""]))

    def group(self, path: str, **files: object) -> None:
        directory = self.root / "sys/fs/cgroup" / path
        directory.mkdir(parents=True, exist_ok=True)
        for name, value in files.items():
            (directory / f"memory.{name}").write_text(f"{value}\n")

    @property
    def left(self) -> int:
        return available(self.proc, self.root)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_without_groups_it_is_what_the_kernel_estimates(machine: Machine) -> None:
    assert machine.left == 64 * GB // 1024 * 1024


def test_a_group_s_limit_counts_less_what_is_used_and_cannot_be_taken_back(
    machine: Machine,
) -> None:
    machine.says("0::/system.slice/slurm/job_4711/step_0\n", _V2)
    machine.group(
        "system.slice/slurm/job_4711/step_0",
        max=32 * GB,
        current=10 * GB,
        stat=f"anon 1\nfile 5\ninactive_file {4 * GB}\nactive_file {GB}",
    )
    assert machine.left == 26 * GB


def test_the_narrowest_group_above_counts(machine: Machine) -> None:
    machine.says("0::/slurm/job_1/step_0\n", _V2)
    machine.group("slurm/job_1/step_0", max="max", high="max", current=GB)
    machine.group("slurm/job_1", max=16 * GB, current=2 * GB)
    machine.group("slurm", max=100 * GB, current=95 * GB, high=98 * GB)
    assert machine.left == 3 * GB


def test_version_1_is_understood(machine: Machine) -> None:
    machine.says(
        "9:cpu,cpuacct:/other\n4:memory:/slurm/uid_1/job_2\n1:name=memory:/x\n", _V1, _V1_CPU
    )
    machine.group(
        "memory/slurm/uid_1/job_2",
        limit_in_bytes=8 * GB,
        usage_in_bytes=5 * GB,
        stat=f"inactive_file 7\ntotal_inactive_file {2 * GB}",
    )
    machine.group("memory", limit_in_bytes=_UNLIMITED, usage_in_bytes=50 * GB)
    assert machine.left == 5 * GB


def test_both_versions_at_once_are_understood(machine: Machine) -> None:
    machine.says("4:memory:/job\n0::/session\n", _V1, _V2_HYBRID)
    machine.group("memory/job", limit_in_bytes=8 * GB, usage_in_bytes=GB)
    machine.group("unified/session", current=3 * GB)
    assert machine.left == 7 * GB


def test_in_a_container_the_group_that_is_mounted_counts(machine: Machine) -> None:
    mounted = _V2.replace(" / /sys", " /docker/abc /sys")
    machine.group("", max=4 * GB, current=GB)
    machine.says("0::/docker/abc\n", mounted)
    assert machine.left == 3 * GB
    machine.says("0::/somewhere/outside\n", _V2)
    assert machine.left == 3 * GB
    machine.says("0::/../other\n", _V2)
    assert machine.left == 3 * GB


def test_a_group_that_is_over_its_limit_leaves_nothing(machine: Machine) -> None:
    machine.says("0::/job\n", _V2)
    machine.group("job", max=GB, current=2 * GB)
    assert machine.left == 0


def test_what_cannot_be_understood_is_passed_over(machine: Machine) -> None:
    machine.says("\n:\n0::\nmemory\n", "\n", "1 2 -", _V2)
    machine.group("", max="much", current="?")
    assert machine.left == 64 * GB // 1024 * 1024


def test_where_nothing_is_known_it_is_the_machine_s_memory(tmp_path: Path) -> None:
    assert available(tmp_path, tmp_path) >= available() > 0


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
def test_what_slurm_gave_is_a_bound(tmp_path: Path, environ: dict[str, str], expected: int) -> None:
    machine = Machine(tmp_path)
    found = available(machine.proc, machine.root, environ)
    assert found == expected // 1024 * 1024
