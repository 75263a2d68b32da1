"""Which process this is, by variables as schedulers and launchers set them; lists of hosts."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep.errors import UsageError
from dataprep.staging.placement import (
    LOOP,
    Placement,
    expand_hosts,
    find_job,
    find_placement,
    in_slurm_step,
    require_node,
)

# --- environments ---

SLURM_JOB = {
    "SLURM_JOB_ID": "4711",
    "SLURM_JOBID": "4711",
    "SLURM_JOB_NODELIST": "n[0-3]",
    "SLURM_NODELIST": "n[0-3]",
    "SLURM_NNODES": "4",
    "SLURM_JOB_NUM_NODES": "4",
    "SLURM_TASKS_PER_NODE": "2(x4)",
}
SLURM_BATCH = {  # of the script, on the first node
    **SLURM_JOB,
    "SLURM_PROCID": "0",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "0",
    "SLURMD_NODENAME": "n0",
    "SLURM_GTIDS": "0",
}


def slurm_step(node: int, local_rank: int = 0, **more: str) -> dict[str, str]:
    """A task of ``srun -N2 --ntasks-per-node=2 -w n[2-3]`` in that job."""
    return {
        **SLURM_JOB,
        "SLURM_STEP_ID": "3",
        "SLURM_STEPID": "3",
        "SLURM_STEP_NUM_NODES": "2",
        "SLURM_STEP_NUM_TASKS": "4",
        "SLURM_STEP_NODELIST": "n[2-3]",
        "SLURM_NNODES": "2",
        "SLURM_PROCID": str(2 * node + local_rank),
        "SLURM_NODEID": str(node),
        "SLURM_LOCALID": str(local_rank),
        "SLURMD_NODENAME": f"n{node + 2}",
        **more,
    }


def open_mpi(rank: int, size: int, local_rank: int, local_size: int) -> dict[str, str]:
    """As Open MPI 5.0 sets them; 4.1 differs in the namespace only, which is a number."""
    return {
        "OMPI_COMM_WORLD_RANK": str(rank),
        "OMPI_COMM_WORLD_SIZE": str(size),
        "OMPI_COMM_WORLD_LOCAL_RANK": str(local_rank),
        "OMPI_COMM_WORLD_LOCAL_SIZE": str(local_size),
        "OMPI_COMM_WORLD_NODE_RANK": str(local_rank),
        "PMIX_NAMESPACE": "prterun-n0-28572@1",
        "PMIX_RANK": str(rank),
        "PMIX_HOSTNAME": "whatever",
    }


def hydra(rank: int, size: int, local_rank: int, local_size: int) -> dict[str, str]:
    """As MPICH's mpiexec sets them, and Intel MPI's."""
    return {
        "PMI_RANK": str(rank),
        "PMI_SIZE": str(size),
        "PMI_FD": "9",
        "MPI_LOCALRANKID": str(local_rank),
        "MPI_LOCALNRANKS": str(local_size),
    }


def pals(rank: int, size: int, local_rank: int, local_size: int) -> dict[str, str]:
    """As mpiexec on Polaris and Aurora sets them."""
    return {
        "PALS_RANKID": str(rank),
        "PALS_LOCAL_RANKID": str(local_rank),
        "PALS_LOCAL_SIZE": str(local_size),
        "PALS_APID": "0a3f7c1e-2b7d-4d57-9f6f-1f0c7f2e9a11",
        "PMI_RANK": str(rank),
        "PMI_SIZE": str(size),
        "PMI_LOCAL_RANK": str(local_rank),
        "PMI_LOCAL_SIZE": str(local_size),
        "PMIX_RANK": str(rank),
    }


# Files that the variables below name; PBS has a line for each chunk, under long names.
_FILES = {
    "pbs": "n2.site.org\nn2.site.org\nn0.site.org\nn1.site.org\nn0.site.org\n",
    "lsf": "a01n01\na01n01\na01n02\na01n02\n",
}
PBS = {"PBS_JOBID": "4711.server", "PBS_NODEFILE": "{pbs}"}
LSF = {"LSB_JOBID": "88", "LSB_JOBINDEX": "0", "LSB_DJOB_HOSTFILE": "{lsf}"}
SLURM_DAEMON = {  # Open MPI's, which srun has started on all nodes but the first
    **slurm_step(0),
    "SLURM_STEP_NODELIST": "n[1-3]",
    "SLURM_STEP_NUM_NODES": "3",
    "SLURMD_NODENAME": "n1",
}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("hosts")
    for name, text in _FILES.items():
        (place / name).write_text(text)
    return {name: place / name for name in _FILES}


def place(environment: Mapping[str, str], host: str = "n0") -> Placement:
    return find_placement(environment, hostname=host)


def node_of(found: Placement) -> tuple[int, int, int]:
    assert found.doubt is None, found.doubt
    return found.node, found.nodes, found.local_rank


# --- which node of how many, and which process there ---

_CERTAIN = [
    # Slurm: a step, the shell of salloc on a login node.
    (slurm_step(1, 1), "n3", (1, 2, 1)),
    (SLURM_JOB, "login1", (0, 4, 0)),
    # What Slurm's MPI plugins set changes nothing.
    (slurm_step(1, 1, PMIX_RANK="3", PMIX_NAMESPACE="slurm.pmix.4711.3"), "n3", (1, 2, 1)),
    (slurm_step(1, 1, **pals(3, 4, 1, 2)), "n3", (1, 2, 1)),
    # Open MPI: one rank a node, all on one, or as many on each of the job's hosts.
    (open_mpi(2, 3, 0, 1), "c", (2, 3, 0)),
    (open_mpi(3, 4, 3, 4), "c", (0, 1, 3)),
    ({**SLURM_BATCH, **open_mpi(5, 8, 1, 2)}, "n2.site.org", (2, 4, 1)),
    ({**SLURM_DAEMON, **open_mpi(1, 4, 0, 1)}, "n1", (1, 4, 0)),
    # Hydra, which passes the batch script's variables on, or those of its proxies' steps.
    ({**SLURM_BATCH, **hydra(5, 8, 1, 2)}, "n2", (2, 4, 1)),
    ({**slurm_step(0), **hydra(3, 4, 0, 1)}, "n3", (3, 4, 0)),
    ({"PMI_RANK": "0", "PMI_SIZE": "1"}, "n0", (0, 1, 0)),
    ({**PBS, **pals(3, 12, 3, 4)}, "n2", (0, 3, 3)),
    # PBS counts each host once; a task of pbsdsh knows its node's number.
    (PBS, "n0", (1, 3, 0)),
    ({**PBS, "PBS_NODENUM": "2"}, "n1-ib0", (2, 3, 0)),
    ({**PBS, "PBS_NODENUM": "2"}, "n0", (1, 3, 0)),
    ({"PBS_JOBID": "1", "PBS_NODENUM": "1", "PBS_NUM_NODES": "2"}, "n1", (1, 2, 0)),
    # LSF.
    (LSF, "a01n02", (1, 2, 0)),
    ({"LSB_JOBID": "88", "LSB_MCPU_HOSTS": "a01n01 2 a01n02 2 "}, "a01n02.site", (1, 2, 0)),
]

_DOUBTFUL = [
    (open_mpi(5, 8, 1, 4), "n0"),  # several ranks a node, and no list of hosts
    ({**SLURM_BATCH, **open_mpi(0, 4, 0, 2)}, "n0"),  # on some of the job's nodes only
    ({"PMI_RANK": "1", "PMI_SIZE": "2"}, "n0"),
    (pals(8, 12, 0, 4), "n0"),  # no list of hosts
    (PBS, "stranger"),
    ({**PBS, "PBS_NODEFILE": "/no/such/file", "PBS_NODENUM": "1"}, "n1"),
    (LSF, "stranger"),
]


@pytest.mark.parametrize(("environment", "host", "expected"), _CERTAIN)
def test_a_node_is_told(
    environment: dict[str, str],
    host: str,
    expected: tuple[int, int, int],
    written: dict[str, Path],
) -> None:
    variables = {name: text.format(**written) for name, text in environment.items()}
    assert node_of(place(variables, host)) == expected


@pytest.mark.parametrize(("environment", "host"), _DOUBTFUL)
def test_what_would_be_a_guess_is_a_doubt(
    environment: dict[str, str], host: str, written: dict[str, Path]
) -> None:
    found = place({name: text.format(**written) for name, text in environment.items()}, host)
    assert (found.node, found.nodes, found.leader) == (0, 1, None)
    with pytest.raises(
        UsageError, match=r"^--share .*RANK, from 0, and WORLD_SIZE for each$"
    ) as caught:
        require_node(found, "--share")
    assert "\n" not in str(caught.value)


def test_if_all_nodes_are_certain_they_are_right() -> None:
    """However ranks are spread over some of a job's four nodes, no two take themselves for one."""
    certain = 0
    for used in range(1, 5):
        for hosts in itertools.permutations(range(4), used):
            for counts in itertools.product((1, 2, 3), repeat=used):
                firsts = [sum(counts[:node]) for node in range(used)]
                found = [
                    place({**SLURM_JOB, **open_mpi(first, sum(counts), 0, count)}, f"n{host}")
                    for host, count, first in zip(hosts, counts, firsts, strict=True)
                ]
                if all(one.doubt is None for one in found):
                    certain += 1
                    assert {one.nodes for one in found} == {used}
                    assert sorted(one.node for one in found) == list(range(used))
                    assert {one.leader for one in found if used > 1} <= {"n0", None}
    assert certain > 0


# --- all else that is told ---


def test_without_variables_it_is_the_only_process_of_the_only_node() -> None:
    assert place({}, "login3.site.org") == Placement(
        "login3", 0, 1, 0, None, None, "login3", "nothing"
    )
    require_node(place({}), "--share")


def test_a_slurm_step_says_everything() -> None:
    assert place(slurm_step(1, 1), "whatever") == Placement(
        host="n3",
        node=1,
        nodes=2,
        local_rank=1,
        job="slurm-4711",
        step="slurm-4711.3.0",
        leader="n2",
        origin="Slurm",
    )
    # A requeued job is the same job in another step.
    again = place(slurm_step(1, SLURM_RESTART_COUNT="1"))
    assert (again.job, again.step) == ("slurm-4711", "slurm-4711.3.1")


@pytest.mark.parametrize("step", ["", "4294967291", "4294967290"])  # batch script, salloc
def test_a_batch_script_has_a_job_but_nobody_to_meet(step: str) -> None:
    found = place({**SLURM_BATCH, "SLURM_STEP_ID": step})
    assert found == Placement("n0", 0, 4, 0, "slurm-4711", None, None, "Slurm")


@pytest.mark.parametrize(
    ("environment", "host", "origin", "job", "step", "leader"),
    [
        (open_mpi(2, 3, 0, 1), "c", "Open MPI", None, "Open-MPI-prterun-n0-28572@1", None),
        (
            {**SLURM_BATCH, **open_mpi(3, 8, 1, 2)},
            "n1",
            "Open MPI",
            "slurm-4711",
            "slurm-4711.Open-MPI-prterun-n0-28572@1",
            "n0",
        ),
        # Ranks that are not counted as the hosts are listed.
        (
            {**SLURM_BATCH, **open_mpi(1, 4, 0, 1)},
            "n2",
            "Open MPI",
            "slurm-4711",
            "slurm-4711.Open-MPI-prterun-n0-28572@1",
            None,
        ),
        ({**SLURM_BATCH, **hydra(5, 8, 1, 2)}, "n2", "Hydra", "slurm-4711", None, "n0"),
        (
            {**PBS, **pals(7, 12, 3, 4)},
            "n0",
            "Cray PALS",
            "pbs-4711.server",
            "pbs-4711.server.Cray-PALS-0a3f7c1e-2b7d-4d57-9f6f-1f0c7f2e9a11",
            "n2.site.org",
        ),
        (PBS, "n0", "PBS", "pbs-4711.server", None, None),
        ({**LSF, "LSB_JOBINDEX": "7"}, "a01n01", "LSF", "lsf-88[7]", None, None),
    ],
)
def test_the_job_the_launch_and_the_first_node_are_named(
    environment: dict[str, str],
    host: str,
    origin: str,
    job: str | None,
    step: str | None,
    leader: str | None,
    written: dict[str, Path],
) -> None:
    found = place({name: text.format(**written) for name, text in environment.items()}, host)
    assert (found.origin, found.job, found.step, found.leader) == (origin, job, step, leader)


# --- a loop over the nodes ---


def ranked(rank: int, world_size: int) -> dict[str, str]:
    return {"RANK": str(rank), "WORLD_SIZE": str(world_size)}


@pytest.mark.parametrize(
    ("environment", "job"),
    [({}, None), ({**PBS, "PBS_NODEFILE": "/no/such/file", "PBS_NODENUM": "1"}, "pbs-4711.server")],
)
def test_a_loop_tells_where_nothing_else_does(environment: dict[str, str], job: str | None) -> None:
    found = place({**environment, **ranked(1, 5)})
    assert found == Placement("n0", 1, 5, 0, job, None, None, LOOP)


@pytest.mark.parametrize(
    "environment", [slurm_step(1, 1), SLURM_BATCH, open_mpi(5, 8, 1, 4), {"RANK": "1"}]
)
def test_what_a_batch_script_exports_for_its_training_is_passed_over(
    environment: dict[str, str],
) -> None:
    assert place({**ranked(3, 16), **environment} if len(environment) > 1 else environment) == (
        place({name: text for name, text in environment.items() if name != "RANK"})
    )


def test_the_nodes_of_torchrun_are_its_agents() -> None:
    agent = {"GROUP_RANK": "1", "GROUP_WORLD_SIZE": "2", "LOCAL_RANK": "3"}
    assert node_of(place({**ranked(7, 8), **agent})) == (1, 2, 3)


def test_a_number_without_end_is_none() -> None:
    with pytest.raises(UsageError, match=r"\$SLURM_NNODES is '9{50}', expected a number"):
        find_job({"SLURM_JOB_ID": "1", "SLURM_NNODES": "9" * 5000})
    with pytest.raises(ValueError, match="more than 18 digits"):
        expand_hosts(f"n[0-{2**63}]")
    assert not in_slurm_step({"SLURM_JOB_ID": "1", "SLURM_STEP_ID": "9" * 5000})


@pytest.mark.parametrize("hosts", ["n[0-9999999999]", "n[0-999]m[0-999]r[0-9]", "n[5,0-262143]"])
def test_more_hosts_than_there_are_anywhere_are_refused(hosts: str) -> None:
    with pytest.raises(ValueError, match="more than 262,144 hosts"):
        expand_hosts(hosts)


# --- contradictions ---


@pytest.mark.parametrize(
    ("environment", "names"),
    [
        ({**slurm_step(0), "SLURM_NODEID": "2"}, ["Slurm", "node 2 of 2"]),
        ({**slurm_step(0), "SLURM_NODEID": "one"}, ["SLURM_NODEID", "'one'"]),
        ({**slurm_step(0), "SLURM_NODEID": ""}, ["SLURM_NODEID", "not set"]),
        ({**slurm_step(0), "SLURM_STEP_NODELIST": "n[2-"}, ["SLURM_STEP_NODELIST"]),
        ({**slurm_step(0), "SLURM_STEP_NODELIST": "n[2-x]"}, ["SLURM_STEP_NODELIST"]),
        (open_mpi(4, 4, 0, 1), ["Open MPI", "node 4 of 4"]),
        ({**open_mpi(0, 4, 0, 1), "OMPI_COMM_WORLD_SIZE": "x\ny"}, ["OMPI_COMM_WORLD_SIZE"]),
        (ranked(2, 2), ["RANK", "node 2 of 2"]),
        ({"PBS_JOBID": "1", "PBS_NODENUM": "3", "PBS_NUM_NODES": "3"}, ["PBS", "node 3 of 3"]),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else "",
)
def test_variables_that_make_no_sense_are_named(
    environment: dict[str, str], names: list[str]
) -> None:
    with pytest.raises(UsageError) as caught:
        place(environment)
    for name in names:
        assert name in str(caught.value)
    assert "\n" not in str(caught.value)


# --- lists of hosts ---


_PREFIXES = st.text("abz-.", min_size=1, max_size=4)
_RANGES = st.tuples(st.integers(0, 1200), st.integers(0, 12), st.integers(1, 4))


@given(st.lists(st.tuples(_PREFIXES, st.lists(_RANGES, max_size=3), _PREFIXES), min_size=1))
def test_every_list_expands_to_what_it_was_made_from(
    entries: list[tuple[str, list[tuple[int, int, int]], str]],
) -> None:
    parts, hosts = [], []
    for prefix, ranges, end in entries:
        if not ranges:
            parts.append(prefix + end)
            hosts.append(prefix + end)
            continue
        texts = []
        for first, more, digits in ranges:
            begin = f"{first:0{digits}d}"
            texts.append(begin if more == 0 else f"{begin}-{first + more:0{digits}d}")
            hosts += [
                f"{prefix}{number:0{len(begin)}d}{end}" for number in range(first, first + more + 1)
            ]
        parts.append(f"{prefix}[{','.join(texts)}]{end}")
    assert expand_hosts(",".join(parts)) == hosts


@pytest.mark.skipif(shutil.which("scontrol") is None, reason="scontrol (Slurm) is not installed")
@pytest.mark.parametrize("text", ["n[0-2,5],m-a[01-10]", "r[0-1]n[00-03]", "n[8-11],login"])
def test_slurm_expands_alike(text: str, tmp_path: Path) -> None:
    configuration = tmp_path / "slurm.conf"  # no daemon is asked
    configuration.write_text("ClusterName=t\nSlurmctldHost=localhost\nNodeName=n0\n")
    done = subprocess.run(
        ["scontrol", "show", "hostnames", text],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "SLURM_CONF": str(configuration)},
    )
    if done.returncode != 0:
        pytest.skip(f"scontrol does not work here: {done.stderr.strip()}")
    assert expand_hosts(text) == done.stdout.split()
