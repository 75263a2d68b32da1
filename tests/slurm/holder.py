"""The first process in the namespaces of a `Cluster`: its daemons live under it, and die with it.

The kernel kills all processes of a PID namespace when the first one ends, and this one ends when
its standard input does: with whoever started it, however that came to its end.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import subprocess
import sys
import threading
from pathlib import Path

_SET_FLAGS, _SET_ADDRESS = 0x8914, 0x8916  # SIOCSIFFLAGS, SIOCSIFADDR
_UP_AND_RUNNING = 0x41

# What a node has to itself: its name and its scratch.
_NODE = """
echo "$1" >/proc/sys/kernel/hostname
mount -t tmpfs -o "size=$2,mode=1777" tmpfs "$3"
exec slurmd -D -N "$1" -f "$4"
"""


def main(root: Path, address: str, controller: str, size: str, nodes: list[str]) -> None:
    """Start the daemons, bury the dead, and wait for the end of standard input."""
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    _raise_network(address)
    Path("/proc/sys/kernel/hostname").write_text(controller)
    subprocess.run(["mount", "--bind", root / "hosts", "/etc/hosts"], check=True)
    configuration = root / "slurm.conf"
    with (root / "daemons.log").open("ab") as log:
        words: list[list[str | Path]] = [["slurmctld", "-D", "-c", "-f", configuration]]
        for node in nodes:
            apart = ["unshare", "--mount", "--uts", "--propagation", "private"]
            rest: list[str | Path] = [node, size, root / "scratch", configuration]
            words.append([*apart, "sh", "-ec", _NODE, "sh", *rest])
        for command in words:
            subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    sys.stdout.write("started\n")
    sys.stdout.flush()
    while True:
        os.wait()


def _end_with_stdin() -> None:
    sys.stdin.read()
    os._exit(0)


def _raise_network(address: str) -> None:
    """The loopback device, with an address that is no loopback: without one, no name resolves."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as plug:
        fcntl.ioctl(plug, _SET_FLAGS, struct.pack("16sH14x", b"lo", _UP_AND_RUNNING))
        family = struct.pack("HH4s8x", socket.AF_INET, 0, socket.inet_aton(address))
        fcntl.ioctl(plug, _SET_ADDRESS, struct.pack("16s16s", b"lo:0", family))


if __name__ == "__main__":
    _root, _address, _controller, _size, *_nodes = sys.argv[1:]
    main(Path(_root), _address, _controller, _size, _nodes)
