"""How `dataprep stage SRC -- COMMAND` starts itself on every node of a job, and is answered.

Launchers read the environment as they read options, and what the user has set there is for the
launches of COMMAND. Ours are told all that they need, and see nothing of it. Processes on the nodes
do: the script's environment reaches them in one variable, whatever the launcher hands on.
"""

from __future__ import annotations

import base64
import os
import re
import shutil
import subprocess
import zlib
from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias
from urllib.parse import quote, unquote

from dataprep.errors import UsageError
from dataprep.staging.handshake import SECRET
from dataprep.staging.placement import Job

Answer: TypeAlias = Literal["begun", "ready", "copy", "no-room"]

_CARRIED: Final = "DATAPREP_LAUNCH"
_LONGEST = 1 << 12  # bytes of a carried variable; all of them are one, which may have 128 KiB
# What a launcher says of one process, and shells of themselves; and Slurm's --cpus-per-task, which
# is of the tasks of COMMAND: a copier may have all cores of the job.
_NOT_CARRIED = re.compile(
    r"(OMPI|PRTE|PMIX?|PALS|MPI|HYDRA|JSM|I_MPI)_.*|PBS_(NODE|TASK|VNODE)NUM|BASH_FUNC_.*|HOSTNAME"
    r"|((GROUP_|LOCAL_)?(RANK|WORLD_SIZE))|SLURM_(CPUS_PER_TASK|(STEP|SRUN)_.*)|_"
    rf"|{_CARRIED}|{SECRET}"
)
# All that starts so is an option to srun, but for what says which job of which cluster it is in,
# and how MPI and a site's plugins are set up.
_SRUN_IGNORES = re.compile(
    r"(SLURM|SRUN)_(?!(CONF|CONF_SERVER|JOB_?ID|CLUSTER_NAME|WORKING_CLUSTER"
    r"|NODE_ALIASES|JWT|SACK_\w+|MPI_TYPE|PMI\w+|SPANK_\w+)$).*"
)
# Where processes go, what is handed on, and what becomes of their output.
_MPIEXEC_IGNORES = re.compile(
    r"(OMPI|PRTE|PMIX)_MCA_(rmaps|ppr|hwloc_base_(binding|use)|hwloc_default|mca_base_env|iof"
    r"|(orte|prte|opal)_(tag|timestamp|output|xml|rankfile|map|display|report|timeout|set)).*"
    r"|MPIEXEC_(?!PORT).*|I_MPI_(PERHOST|PIN|HYDRA_(ENV|PERHOST)|OUTPUT|PREPEND).*"
    r"|HYDRA_(ENV|BINDING|TOPO|HOST_FILE|PREPEND|OUTPUT|ERROR|DEFAULT).*"
)
_ANSWERS = re.compile(r"dataprep-answer:([a-z-]+):([\w.~/%-]*);")


def launch_words(job: Job, program: Sequence[str], *, together: bool = True) -> list[str]:
    """The words that start one process on every node of a job, with all of the node's cores.

    Args:
        together: a process that fails ends the others.

    Raises:
        UsageError: the launcher is not there.
    """
    name = {"Slurm": "srun", "LSF": "blaunch"}.get(job.origin, "mpiexec")
    if shutil.which(name) is None:
        raise UsageError(
            f"{name}, which starts a process on every node, is not on the PATH; load its "
            "module, or start `dataprep stage` on every node yourself"
        )
    if name == "srun":
        words = [f"--nodes={job.count or 1}", f"--ntasks={job.count or 1}", "--ntasks-per-node=1"]
        words += ["--overlap", "--mem=0", "--cpu-bind=none", "--export=ALL", "--wait=0"]
        words += ["--distribution=block", "--job-name=dataprep"]
        return ["srun", *words, f"--kill-on-bad-exit={int(together)}", *program]
    if name == "blaunch":
        return ["blaunch", "-no-shell", "-z", " ".join(job.hosts), *program]
    # Open MPI says it in one way; MPICH, Intel MPI and Cray's PALS in another.
    said = subprocess.run(
        ["mpiexec", "--version"],  # noqa: S607  # the site's own
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    ).stdout.lower()
    words = ["mpiexec", "-n", str(job.count or 1)]
    if not any(mpi in said for mpi in ("open mpi", "openmpi", "openrte")):
        return [*words, "--ppn", "1", *program]
    # Open MPI hands on only the variables that it is told to.
    ours = {SECRET, _CARRIED, *(each for each in os.environ if each.startswith("DATAPREP_"))}
    handed = [word for each in sorted(ours) for word in ("-x", each)]
    return [*words, "--map-by", "ppr:1:node", "--bind-to", "none", *handed, *program]


def launch_environment(
    job: Job, secret: str, environment: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """The launcher's environment: what it needs, and what its processes see of the script's."""
    carried = {
        name: text
        for name, text in environment.items()
        if not _NOT_CARRIED.fullmatch(name) and len(text) < _LONGEST
    }
    ignored = {"Slurm": _SRUN_IGNORES, "LSF": None}.get(job.origin, _MPIEXEC_IGNORES)
    kept = {
        name: text
        for name, text in environment.items()
        if ignored is None or not ignored.fullmatch(name)
    }
    if ignored is _MPIEXEC_IGNORES:
        kept["I_MPI_JOB_RESPECT_PROCESS_PLACEMENT"] = "0"  # Intel MPI's: or --ppn is not heard
    data = b"\0".join(os.fsencode(f"{name}={text}") for name, text in carried.items())
    packed = base64.b64encode(zlib.compress(data, 9)).decode()
    return {**kept, SECRET: secret, _CARRIED: packed}


def take_environment() -> None:
    """On a node: what the launcher has not handed on is as it was in the script."""
    if packed := os.environ.pop(_CARRIED, ""):
        for pair in filter(None, zlib.decompress(base64.b64decode(packed)).split(b"\0")):
            name, _, text = os.fsdecode(pair).partition("=")
            os.environ.setdefault(name, text)


def answer(kind: Answer, text: str = "") -> str:
    """What a process on a node prints for the one that has launched it."""
    return f"dataprep-answer:{kind}:{quote(text, errors='surrogateescape')};"


def answers(out: str, kind: Answer) -> list[str]:
    """The texts of such answers, among labels and whatever else a site's launcher prints."""
    found = _ANSWERS.findall(out)
    return [unquote(text, errors="surrogateescape") for each, text in found if each == kind]
