"""A real Slurm of four nodes on this machine, each with a name and a scratch of its own.

Everything is in namespaces: no port, no name and no mount of the machine is touched, and nothing
is left over. The data set's side, the "parallel file system", is any directory of the machine.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

NODES = ("n0", "n1", "n2", "n3")
SCRATCH = "48m"  # of a node
# What Open MPI needs to know here.
OPEN_MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_btl": "self,tcp",
    "OMPI_MCA_btl_tcp_if_include": "10.0.0.0/24",  # lo has 127.0.0.1, too, which peers drop
    "OMPI_MCA_mpi_yield_when_idle": "1",  # there are fewer cores than ranks
    "OMPI_MCA_oob_tcp_if_include": "lo",
}
_CONTROLLER, _ADDRESS = "control", "10.0.0.1"
_PROGRAMS = ("slurmctld", "slurmd", "sbatch", "srun", "unshare", "nsenter", "mount")
# What jobs find on their PATH, whether or not the environment of the tests is activated.
_PYTHON = {
    "python": "",
    "dataprep": "-m dataprep",
    "dask": "-m dask",
    "dask-mpi": "-m dask_mpi.cli",
}
_APART = (
    *("unshare", "--fork", "--pid", "--mount-proc", "--kill-child"),
    *("--mount", "--uts", "--net", "--propagation", "private"),
)

# auth/none believes everybody, in a network that nobody else is in. A requeued job waits until its
# old credentials have expired; less than 5 s is taken for 120. Two jobs may be on one node.
_CONFIGURATION = """
ClusterName=dataprep
SlurmctldHost={controller}({address})
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
AuthInfo=cred_expire=5
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SlurmctldPort=36817
SlurmctldPidFile={root}/slurmctld.pid
SlurmdPidFile={root}/slurmd-%n.pid
SlurmdSpoolDir={root}/spool/%n
StateSaveLocation={root}/state
SlurmctldLogFile={root}/slurmctld.log
SlurmdLogFile={root}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
SlurmdParameters=config_overrides
SlurmdTimeout=15
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=0
KillWait=30
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class NoSlurmError(Exception):
    """Why there can be no cluster on this machine."""


@dataclass(frozen=True)
class Ended:
    """How a job or a command ended."""

    code: int
    out: str


@dataclass(frozen=True)
class Started:
    """A command that runs in the cluster.

    Attributes:
        pid: of itself, outside of the cluster's namespaces.
    """

    process: subprocess.Popen[str]
    pid: int

    def end(self, number: signal.Signals | None = None, *, seconds: float = 60) -> Ended:
        """Send it a signal, if one is given, and wait for its end."""
        if number is not None:
            os.kill(self.pid, number)
        out, _ = self.process.communicate(timeout=seconds)
        return Ended(self.process.returncode, out)


class Cluster:
    """A running cluster; see `slurm_cluster`.

    Attributes:
        root: its directory.
        scratch: the path of every node's own scratch.
        environment: what jobs find in their environment.
    """

    def __init__(self, root: Path, holder: int) -> None:
        self.root = root
        self.scratch = root / "scratch"
        self._enter = ["nsenter", f"--target={holder}", "--mount", "--pid", "--uts", "--net"]
        self.environment = {
            **{name: os.environ[name] for name in ("LANG", "TMPDIR") if name in os.environ},
            "HOME": str(root),  # which the nodes share
            "PATH": f"{root / 'bin'}:{os.environ['PATH']}",
            "SLURM_CONF": str(root / "slurm.conf"),
            "DATAPREP_SCRATCH": str(self.scratch),
        }

    def run(self, *words: object, seconds: float = 60, check: bool = True) -> Ended:
        """Run a command beside the controller."""
        done = subprocess.run(
            [*self._enter, "--", *map(str, words)],
            env=self.environment,
            cwd=self.root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
        )
        if check:
            assert done.returncode == 0, done.stdout
        return Ended(done.returncode, done.stdout)

    def on(self, node: str, command: str, *, check: bool = True) -> Ended:
        """Run a shell command as a process of a node, without asking Slurm."""
        daemon = (self.root / f"slurmd-{node}.pid").read_text().strip()
        enter = ["nsenter", f"--target={daemon}", "--mount", "--uts", "--", "sh", "-c", command]
        return self.run(*enter, check=check)

    def listing(self, node: str) -> list[str]:
        """All files in a node's scratch."""
        found = self.on(node, f"cd {shlex.quote(str(self.scratch))} && find . -type f").out
        return sorted(found.split())

    def wipe(self) -> None:
        """Empty every node's scratch."""
        for node in NODES:
            self.on(node, f"find {shlex.quote(str(self.scratch))} -mindepth 1 -delete")

    def fill(self, node: str, *, but: int) -> None:
        """Take all of a node's scratch but for so many bytes; to others it is in ``others``."""
        free = f"$(df --output=avail --block-size=1 '{self.scratch}' | tail -n1)"
        self.on(node, f"fallocate -l $(({free} - {but})) '{self.scratch}/others'")

    @contextmanager
    def start(self, *words: object, **variables: str) -> Iterator[Started]:
        """Start a command beside the controller; should it still run at the end, it is killed."""
        with subprocess.Popen(
            [*self._enter, "--", *map(str, words)],
            env=self.environment | variables,
            cwd=self.root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            # It is nsenter, which hands no signal on.
            self.until(lambda: bool(_children(process.pid)))
            pid = _children(process.pid)[0]
            try:
                yield Started(process, pid)
            finally:
                if process.poll() is None:
                    os.kill(pid, signal.SIGKILL)

    def submit(
        self, script: str, *options: object, arguments: Sequence[str] = (), **variables: str
    ) -> int:
        """``sbatch``; returns the job's number."""
        number = len(list(self.root.glob("job-*.sh")))
        path = self.root / f"job-{number}.sh"
        path.write_text(script)
        given = [f"{name}={value}" for name, value in variables.items()]
        words = ["sbatch", "--parsable", f"--output={self.root}/%j.out", *options, path, *arguments]
        return int(self.run("env", *given, *words).out)

    def output(self, job: int) -> str:
        """What a job has said up to now."""
        path = self.root / f"{job}.out"
        return path.read_text(errors="replace") if path.exists() else ""

    def wait(self, job: int, *, seconds: float = 60) -> Ended:
        """Wait until a job is over."""

        def is_over() -> bool:
            return not self.run("squeue", "--noheader", f"--jobs={job}", check=False).out.strip()

        try:
            self.until(is_over, seconds=seconds)
        except AssertionError:
            running = self.run("ps", "-eo", "pid,ppid,stat,args", "--forest", check=False).out
            self.run("scancel", "--signal=KILL", "--full", job, check=False)
            raise AssertionError(
                f"job {job} does not end:\n{self.output(job)}\n{running}"
            ) from None
        shown = self.run("scontrol", "show", "job", job, "--oneliner").out
        fields = dict(word.split("=", 1) for word in shown.split() if "=" in word)
        code, signal = map(int, fields["ExitCode"].split(":"))
        return Ended(code or (128 + signal if signal else 0), self.output(job))

    def until(self, condition: Callable[[], bool], *, seconds: float = 30) -> None:
        """Wait for something to become true."""
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, "it did not come true"
            time.sleep(0.1)

    def until_said(self, job: int, text: str, *, seconds: float = 30) -> None:
        """Wait until a job has said something."""
        try:
            self.until(lambda: text in self.output(job), seconds=seconds)
        except AssertionError:
            raise AssertionError(f"{text!r} is not in:\n{self.output(job)}") from None


@contextmanager
def slurm_cluster(root: Path, **variables: str) -> Iterator[Cluster]:
    """Start a cluster in an empty directory; all of it is gone afterwards.

    Raises:
        NoSlurmError: this machine cannot have one.
    """
    missing = [name for name in _PROGRAMS if shutil.which(name, path=_path()) is None]
    if missing:
        raise NoSlurmError(f"not installed: {', '.join(missing)} (apt-get install slurm-wlm)")
    if os.geteuid() != 0:
        raise NoSlurmError("only root can give each node a scratch of its own")
    _lay_out(root)
    with subprocess.Popen(
        [
            *(*_APART, sys.executable, Path(__file__).with_name("holder.py")),
            *(root, _ADDRESS, _CONTROLLER, SCRATCH, *NODES),
        ],
        env={**os.environ, "PATH": _path()},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            if process.stdout.readline() != "started\n":
                raise NoSlurmError(f"namespaces are not allowed here: {process.stderr.read()}")
            cluster = Cluster(root, _only_child(process.pid))
            cluster.environment |= variables
            _wait_until_idle(cluster)
            yield cluster
        finally:
            process.kill()  # and with it, by --kill-child, the namespaces and all in them


def _path() -> str:
    """Daemons are in directories that are not on everybody's PATH."""
    return f"{os.environ['PATH']}:/usr/sbin:/sbin"


def _lay_out(root: Path) -> None:
    for name in ("bin", "scratch", "spool", "state"):
        (root / name).mkdir(parents=True)
    names = " ".join((_CONTROLLER, *NODES))
    (root / "hosts").write_text(f"127.0.0.1 localhost\n{_ADDRESS} {names}\n")
    (root / "slurm.conf").write_text(_configuration(root))
    for name, module in _PYTHON.items():
        program = root / "bin" / name
        program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {module} "$@"\n')
        program.chmod(0o755)


def _configuration(root: Path) -> str:
    lines = [
        f"NodeName={node} NodeHostname={_CONTROLLER} NodeAddr={_ADDRESS} Port={37000 + number} "
        "CPUs=8 RealMemory=2000 State=UNKNOWN"
        for number, node in enumerate(NODES)
    ]
    values: Mapping[str, object] = {"root": root, "controller": _CONTROLLER, "address": _ADDRESS}
    return _CONFIGURATION.format(**values, nodes="\n".join(lines))


def _only_child(pid: int) -> int:
    (child,) = _children(pid)
    return child


def _children(pid: int) -> list[int]:
    return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def _wait_until_idle(cluster: Cluster) -> None:
    def is_idle() -> bool:
        states = cluster.run("sinfo", "--noheader", "--Node", "--format=%t", check=False)
        return states.code == 0 and states.out.split() == ["idle"] * len(NODES)

    try:
        cluster.until(is_idle, seconds=30)
    except AssertionError:
        logs = "\n".join(path.read_text() for path in cluster.root.glob("*.log"))
        raise AssertionError(f"Slurm does not come up:\n{logs}") from None
