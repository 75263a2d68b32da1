"""Four "nodes" on one machine, with links and a parallel file system of known speeds.

::

    node 0 ─ tbf ─╮
    node 1 ─ tbf ─┤  a bridge, in a namespace of its own, from which mpirun starts the nodes
    node 2 ─ tbf ─┤
    node 3 ─ tbf ─╯

A node is a network namespace, whose link is as slow as asked in both directions, with a host name
and a tmpfs of its own as its scratch. The parallel file system is the disk: a cgroup bounds what
all nodes together read from it. Each node reads a copy of the source that only it has, because one
kernel keeps one page cache for all; it sees that copy under the name that all have in common.

What is the same on all nodes and should not be: the processors, the memory, and the clock. And the
way to the parallel file system does not lead through the node's link, as it does on most machines.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.setting import CannotRunError

COUNT = 4
NETWORK = "10.77.0.0/24"  # only in the namespaces; the machine's own network does not see it
SOURCE, SCRATCH = "source", "scratch"

_NAME = "dataprep-bench"  # of the cgroup, and what the namespaces' names begin with
_SWITCH = f"{_NAME}-switch"
_NODES = tuple(f"{_NAME}-{node}" for node in range(COUNT))
_CGROUPS = Path("/sys/fs/cgroup/blkio")
_CGROUP = _CGROUPS / _NAME
_BOUND = "blkio.throttle.read_bps_device"
_READ = "blkio.throttle.io_service_bytes"
_QUEUE = "64mb"  # holds whatever TCP has under way: cluster networks do not drop packets
_END_SECONDS = 5.0

# Runs a command on a node: enter NODE COMMAND...
_ENTER = """\
#!/bin/sh
node=$1
shift
exec ip netns exec {name}-"$node" unshare --uts sh -ec '
    echo node"$0" > /proc/sys/kernel/hostname
    mount --bind "$SOURCE-$0" "$SOURCE"
    mount -t tmpfs -o mode=0700,size="$SCRATCH_BYTES" {name} "$SCRATCH"
    exec "$@"
' "$node" "$@"
"""
# mpirun calls it as it would call ssh: agent ADDRESS WORDS...
_AGENT = """\
#!/bin/sh
node=$((${1##*.} - 1))
shift
exec "$ENTER" "$node" sh -c "$*"
"""


def address(node: int) -> str:
    """Of a node; it ends with the node's number, from 1."""
    return f"10.77.0.{node + 1}"


@dataclass(frozen=True)
class Nodes:
    """What runs programs on the nodes.

    Attributes:
        work: ``source-0`` to ``source-3`` in it are the nodes' copies of the source; on every node
            ``source`` is its own one, and ``scratch`` an empty tmpfs for as long as a program runs.
        scratch_bytes: of that tmpfs.
    """

    work: Path
    scratch_bytes: int

    def set_links(self, megabits: int) -> None:
        """Make every link as fast as this, in each direction."""
        shape = ("root", "tbf", "rate", f"{megabits}mbit", "burst", "256kb", "limit", _QUEUE)
        for node, name in enumerate(_NODES):
            _call("ip", "netns", "exec", name, "tc", "qdisc", "replace", "dev", "eth0", *shape)
            port = f"port{node}"
            _call("ip", "netns", "exec", _SWITCH, "tc", "qdisc", "replace", "dev", port, *shape)

    def bytes_read(self) -> int:
        """What all nodes together have read from the disk so far."""
        words = (_CGROUP / _READ).read_text().split()
        return sum(int(words[at + 1]) for at, word in enumerate(words) if word == "Read")

    def command(self, node: int, command: Sequence[str | Path]) -> list[str | Path]:
        """What runs a command on a node."""
        return self._bounded(self.work / "enter", str(node), *command)

    def mpi_command(self, mpirun: Path, command: Sequence[str | Path]) -> list[str | Path]:
        """What runs a command on all nodes, as ranks of one MPI job."""
        hosts = ",".join(map(address, range(COUNT)))
        launch = (mpirun, "--host", hosts, "-n", str(COUNT), "--bind-to", "none", *command)
        return self._bounded("ip", "netns", "exec", _SWITCH, *launch)

    def environment(self) -> dict[str, str]:
        """What all commands need."""
        options = {
            "plm_ssh_agent": str(self.work / "agent"),
            "plm_rsh_agent": str(self.work / "agent"),  # its name before Open MPI 5
            "prte_if_include": NETWORK,
            "oob_tcp_if_include": NETWORK,
            "btl": "self,tcp",
            "btl_tcp_if_include": NETWORK,
        }
        return {
            "ENTER": str(self.work / "enter"),
            "SOURCE": str(self.work / SOURCE),
            "SCRATCH": str(self.work / SCRATCH),
            "SCRATCH_BYTES": str(self.scratch_bytes),
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            **{
                f"{family}_MCA_{name}": value
                for family in ("OMPI", "PRTE")
                for name, value in options.items()
            },
        }

    def end_programs(self) -> None:
        """End what still runs on the nodes, daemons of MPI too."""
        _end_all()

    def _bounded(self, *command: str | Path) -> list[str | Path]:
        """Within the cgroup, as everything that it starts."""
        procs = shlex.quote(str(_CGROUP / "cgroup.procs"))
        return ["sh", "-c", f'echo $$ > {procs} && exec "$0" "$@"', *command]


def find_disk(work: Path) -> str:
    """The numbers of the disk that a directory is on, as MAJOR:MINOR.

    Raises:
        CannotRunError: this machine or this user cannot make nodes, or not there.
    """
    if os.geteuid() != 0:
        raise CannotRunError("only root can make network namespaces and slow a disk down")
    missing = [name for name in ("ip", "tc", "unshare", "mount") if shutil.which(name) is None]
    if missing:
        raise CannotRunError(f"{', '.join(missing)} not found (Debian: iproute2, util-linux)")
    if not (_CGROUPS / _BOUND).exists():
        raise CannotRunError(f"no cgroup of version 1 can slow the disk down ({_CGROUPS})")
    if _CGROUP.exists() and (_CGROUP / "cgroup.procs").read_text():
        raise CannotRunError(f"another run is using the cgroup {_CGROUP}")
    device = work.stat().st_dev
    block = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}")
    if not block.exists():
        raise CannotRunError("the work directory is not on a disk (--work)")
    disk = block.resolve()
    if (disk / "partition").exists():
        disk = disk.parent
    return (disk / "dev").read_text().strip()


@contextmanager
def emulated_nodes(work: Path, *, read_bytes: int, scratch_bytes: int) -> Iterator[Nodes]:
    """Make the nodes, and remove them.

    What a killed run has left is removed first.

    Args:
        work: on a disk; the nodes' copies of the source are there already.
        read_bytes: a second, from that disk, by all nodes together.
        scratch_bytes: of each node's scratch.

    Raises:
        CannotRunError: this machine or this user cannot.
    """
    device = find_disk(work)
    _remove()
    (work / SOURCE).mkdir(exist_ok=True)
    (work / SCRATCH).mkdir(exist_ok=True)
    for name, text in (("enter", _ENTER.replace("{name}", _NAME)), ("agent", _AGENT)):
        (work / name).write_text(text)
        (work / name).chmod(0o700)
    try:
        _make_cgroup(device, read_bytes)
        _make_network()
        yield Nodes(work, scratch_bytes)
    finally:
        _end_all()
        _remove()


def _make_cgroup(device: str, read_bytes: int) -> None:
    try:
        _CGROUP.mkdir()
        (_CGROUP / _BOUND).write_text(f"{device} {read_bytes}")
    except OSError as error:
        raise CannotRunError(f"the disk cannot be slowed down here: {error.strerror}") from error


def _make_network() -> None:
    _call("ip", "netns", "add", _SWITCH)
    _on(_SWITCH, "link", "add", "bridge", "type", "bridge")
    _on(_SWITCH, "addr", "add", "10.77.0.100/24", "dev", "bridge")
    for device in ("lo", "bridge"):
        _on(_SWITCH, "link", "set", device, "up")
    for node, name in enumerate(_NODES):
        port = f"port{node}"
        _call("ip", "netns", "add", name)
        peer = ("peer", "name", port, "netns", _SWITCH)
        _on(name, "link", "add", "eth0", "type", "veth", *peer)
        _on(name, "addr", "add", f"{address(node)}/24", "dev", "eth0")
        _on(_SWITCH, "link", "set", port, "master", "bridge", "up")
        for device in ("lo", "eth0"):
            _on(name, "link", "set", device, "up")


def _on(namespace: str, *words: str) -> None:
    _call("ip", "-n", namespace, *words)


def _call(*words: str) -> None:
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        said = " ".join(done.stderr.split())
        raise CannotRunError(f"network namespaces do not work here: {words[0]}: {said}")


def _remove() -> None:
    """The namespaces, with all that is in them, and the cgroup; whatever of it there is."""
    for name in (*_NODES, _SWITCH):
        subprocess.run(("ip", "netns", "del", name), capture_output=True)
    with suppress(OSError):
        _CGROUP.rmdir()


def _end_all() -> None:
    """End all processes of the cgroup: first politely."""
    for kind in (signal.SIGTERM, signal.SIGKILL):
        for process in _processes():
            with suppress(ProcessLookupError):
                os.kill(process, kind)
        deadline = time.monotonic() + _END_SECONDS
        while _processes() and time.monotonic() < deadline:
            time.sleep(0.05)


def _processes() -> list[int]:
    try:
        return [int(word) for word in (_CGROUP / "cgroup.procs").read_text().split()]
    except OSError:
        return []
