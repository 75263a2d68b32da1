"""Which process this is, by variables as schedulers and launchers set them."""

from __future__ import annotations

import itertools
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from dataprep.errors import UsageError
from dataprep.staging.nodes.placement import Placement, find_placement, require_node

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


def pals(rank: int, size: int, local_rank: int, local_size: int, node: int) -> dict[str, str]:
    """As mpiexec on Polaris and Aurora sets them."""
    return {
        "PALS_RANKID": str(rank),
        "PALS_LOCAL_RANKID": str(local_rank),
        "PALS_LOCAL_SIZE": str(local_size),
        "PALS_NODEID": str(node),
        "PALS_APID": "0a3f7c1e-2b7d-4d57-9f6f-1f0c7f2e9a11",
        "PMI_RANK": str(rank),
        "PMI_SIZE": str(size),
        "PMI_LOCAL_RANK": str(local_rank),
        "PMI_LOCAL_SIZE": str(local_size),
        "PMIX_RANK": str(rank),
    }


def jsrun(rank: int, size: int, local_rank: int, local_size: int) -> dict[str, str]:
    return {
        "JSM_NAMESPACE_RANK": str(rank),
        "JSM_NAMESPACE_SIZE": str(size),
        "JSM_NAMESPACE_LOCAL_RANK": str(local_rank),
        "JSM_NAMESPACE_LOCAL_SIZE": str(local_size),
        **open_mpi(rank, size, local_rank, local_size),
        "PMIX_NAMESPACE": "1",
    }


@pytest.fixture
def pbs(tmp_path: Path) -> dict[str, str]:
    """A job's variables; its hosts have a line for each chunk, under their long names."""
    nodefile = tmp_path / "4711.server"
    nodefile.write_text("n2.site.org\nn2.site.org\nn0.site.org\nn1.site.org\nn0.site.org\n")
    return {"PBS_JOBID": "4711.server", "PBS_NODEFILE": str(nodefile)}


@pytest.fixture
def lsf(tmp_path: Path) -> dict[str, str]:
    hostfile = tmp_path / "hosts"
    hostfile.write_text("batch1\na01n01\na01n01\na01n02\na01n02\n")
    return {"LSB_JOBID": "88", "LSB_JOBINDEX": "0", "LSB_DJOB_HOSTFILE": str(hostfile)}


def place(environment: Mapping[str, str], host: str = "n0", **options: int) -> Placement:
    return find_placement(environment, hostname=host, **options)


def node_of(found: Placement) -> tuple[int, int, int]:
    assert found.doubt is None, found.doubt
    return found.node, found.nodes, found.local_rank


# --- nothing ---


def test_without_variables_it_is_the_only_process_of_the_only_node() -> None:
    assert place({}, "login3.site.org") == Placement(
        "login3", 0, 1, 0, None, None, "login3", "nothing"
    )


def test_the_machine_s_own_name_is_used_by_default() -> None:
    assert find_placement({}).host == socket.gethostname().partition(".")[0].lower()


# --- Slurm ---


@pytest.mark.parametrize("node", [0, 1])
@pytest.mark.parametrize("local_rank", [0, 1])
def test_a_slurm_step_says_everything(node: int, local_rank: int) -> None:
    assert place(slurm_step(node, local_rank), "whatever") == Placement(
        host=f"n{node + 2}",
        node=node,
        nodes=2,
        local_rank=local_rank,
        job="slurm-4711",
        step="slurm-4711.3.0",
        leader="n2",
        origin="Slurm",
    )


def test_a_requeued_job_is_the_same_job_in_another_step() -> None:
    first, second = place(slurm_step(0)), place(slurm_step(0, SLURM_RESTART_COUNT="1"))
    assert first.job == second.job
    assert second.step == "slurm-4711.3.1"


def test_without_the_step_s_own_variables_the_job_s_count() -> None:
    environment = {**SLURM_BATCH, "SLURM_STEP_ID": "0"}
    found = place(environment)
    assert (found.nodes, found.leader, found.step) == (4, "n0", "slurm-4711.0.0")


@pytest.mark.parametrize(
    "environment",
    [
        SLURM_BATCH,
        {**SLURM_BATCH, "SLURM_STEP_ID": "4294967291"},  # the batch script's own number
        {**SLURM_BATCH, "SLURM_STEP_ID": "4294967290"},  # the shell of salloc
        SLURM_JOB,
    ],
    ids=["batch", "numbered", "interactive", "salloc"],
)
def test_a_batch_script_has_a_job_but_nobody_to_meet(environment: dict[str, str]) -> None:
    assert place(environment) == Placement("n0", 0, 4, 0, "slurm-4711", None, None, "Slurm")


def test_the_shell_of_salloc_may_be_on_a_login_node() -> None:
    assert node_of(place(SLURM_JOB, "login1")) == (0, 4, 0)


@pytest.mark.parametrize(
    "plugin",
    [
        {"PMIX_RANK": "3", "PMIX_NAMESPACE": "slurm.pmix.4711.3"},
        {"PMI_RANK": "3", "PMI_SIZE": "4", "PMI_JOBID": "4711.3"},
        pals(3, 4, 1, 2, 1),
    ],
    ids=["pmix", "pmi2", "cray_shasta"],
)
def test_what_slurm_s_mpi_plugins_set_changes_nothing(plugin: dict[str, str]) -> None:
    assert place(slurm_step(1, 1, **plugin)) == place(slurm_step(1, 1))


# --- Open MPI ---


def test_one_rank_a_node_is_the_node() -> None:
    found = place(open_mpi(2, 3, 0, 1), "c")
    assert node_of(found) == (2, 3, 0)
    assert (found.job, found.leader, found.origin) == (None, None, "Open MPI")
    assert found.step == "Open-MPI-prterun-n0-28572@1"


def test_all_ranks_on_one_node_are_one_node() -> None:
    found = place(open_mpi(3, 4, 3, 4), "c")
    assert node_of(found) == (0, 1, 3)
    assert found.leader == "c"


def test_several_ranks_a_node_without_a_list_of_hosts_leave_a_doubt() -> None:
    found = place(open_mpi(5, 8, 1, 4))
    assert (found.node, found.nodes, found.local_rank) == (0, 1, 1)
    assert found.doubt is not None
    assert found.leader is None
    with pytest.raises(UsageError, match=r"^--share .*5 of 8.*--rank and --world_size$") as caught:
        require_node(found, "--share")
    assert "\n" not in str(caught.value)
    require_node(place({}), "--share")


@pytest.mark.parametrize(("host", "node"), [("n0", 0), ("n1", 1), ("n2.site.org", 2), ("N3", 3)])
def test_in_a_slurm_job_the_host_s_name_tells_the_node(host: str, node: int) -> None:
    found = place({**SLURM_BATCH, **open_mpi(2 * node + 1, 8, 1, 2)}, host)
    assert node_of(found) == (node, 4, 1)
    assert found.leader == "n0"
    assert found.step == "slurm-4711.Open-MPI-prterun-n0-28572@1"
    assert found.origin == "Open MPI"


def test_the_step_of_open_mpi_s_daemon_is_not_that_of_its_ranks() -> None:
    daemon = {  # srun has started it on all nodes but the first
        **slurm_step(0),
        "SLURM_STEP_NODELIST": "n[1-3]",
        "SLURM_STEP_NUM_NODES": "3",
        "SLURMD_NODENAME": "n1",
    }
    assert node_of(place({**daemon, **open_mpi(1, 4, 0, 1)}, "n1")) == (1, 4, 0)
    assert node_of(place({**daemon, **open_mpi(3, 8, 1, 2)}, "n1")) == (1, 4, 1)


def test_ranks_on_some_of_the_job_s_nodes_only_are_not_taken_for_all() -> None:
    assert place({**SLURM_BATCH, **open_mpi(0, 4, 0, 2)}, "n0").doubt is not None
    assert node_of(place({**SLURM_BATCH, **open_mpi(1, 2, 0, 1)}, "n1")) == (1, 2, 0)
    assert node_of(place({**SLURM_BATCH, **open_mpi(1, 2, 1, 2)}, "n0")) == (0, 1, 1)


def test_if_all_nodes_are_certain_they_are_right() -> None:
    """However ranks are spread over some of a job's four nodes, no two take themselves for one."""
    certain = 0
    for used in range(1, 5):
        for hosts in itertools.permutations(range(4), used):
            for counts in itertools.product((1, 2, 3), repeat=used):
                found = _spread(hosts, counts)
                if all(one.doubt is None for one in found):
                    certain += 1
                    assert {one.nodes for one in found} == {used}
                    assert sorted(one.node for one in found) == list(range(used))
                    assert {one.leader for one in found if used > 1} <= {"n0", None}
    assert certain > 0


def _spread(hosts: Sequence[int], counts: Sequence[int]) -> list[Placement]:
    """What the first rank of every host finds, with so many ranks on each."""
    firsts = [sum(counts[:node]) for node in range(len(counts))]
    return [
        place({**SLURM_JOB, **open_mpi(first, sum(counts), 0, count)}, f"n{host}")
        for host, count, first in zip(hosts, counts, firsts, strict=True)
    ]


@pytest.mark.parametrize("listed", [False, True], ids=["alone", "in a job"])
def test_if_all_of_pals_s_nodes_are_certain_they_are_right(listed: bool) -> None:
    job = SLURM_JOB if listed else {}
    certain = 0
    for used in range(1, 5):
        for counts in itertools.product(range(1, 7), repeat=used):
            found = [
                place({**job, **pals(sum(counts[:node]), sum(counts), 0, count, node)})
                for node, count in enumerate(counts)
            ]
            if all(one.doubt is None for one in found):
                certain += 1
                assert [(one.node, one.nodes) for one in found] == [
                    (node, used) for node in range(used)
                ], counts
    assert certain > 0


def test_the_leader_is_named_only_if_ranks_are_counted_as_the_hosts_are_listed() -> None:
    assert place({**SLURM_BATCH, **open_mpi(1, 4, 0, 1)}, "n1").leader == "n0"
    assert place({**SLURM_BATCH, **open_mpi(1, 4, 0, 1)}, "n2").leader is None


_ANOTHER_S = ("SLURM", "PBS", "LSB", "OMPI", "PMI", "PALS", "MPI")  # if this is itself in a job


def test_real_open_mpi_is_understood() -> None:
    path = shutil.which("mpirun")
    if (
        path is None
        or "Open MPI"
        not in subprocess.run(
            [path, "--version"], capture_output=True, text=True, check=False
        ).stdout
    ):
        pytest.skip("Open MPI is not installed")
    script = (
        "from dataprep.staging.nodes.placement import find_placement as f; p = f();"
        "print('found', p.node, p.nodes, p.local_rank, p.origin, p.step is not None, flush=True)"
    )
    done = subprocess.run(
        [path, "--allow-run-as-root", "--oversubscribe", "-n", "2", sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={name: text for name, text in os.environ.items() if not name.startswith(_ANOTHER_S)},
    )
    if done.returncode != 0:
        pytest.skip(f"mpirun does not work here: {done.stderr.strip()[-300:]}")
    lines = sorted(line for line in done.stdout.splitlines() if line.startswith("found"))
    assert lines == ["found 0 1 0 Open MPI True", "found 0 1 1 Open MPI True"]


# --- MPICH, Intel MPI, MVAPICH, PMI, PMIx ---


def test_hydra_wins_over_the_batch_script_that_it_passes_on_to_every_node() -> None:
    found = place({**SLURM_BATCH, **hydra(5, 8, 1, 2)}, "n2")
    assert node_of(found) == (2, 4, 1)
    assert (found.origin, found.step, found.job) == ("Hydra", None, "slurm-4711")


def test_hydra_s_ranks_may_be_in_the_steps_of_its_proxies() -> None:
    assert node_of(place({**slurm_step(0), **hydra(3, 4, 0, 1)}, "n3")) == (3, 4, 0)


def test_a_launcher_that_says_little_leaves_a_doubt() -> None:
    assert place({"PMI_RANK": "1", "PMI_SIZE": "2"}).doubt is not None
    assert place({"PMIX_RANK": "1", "PMIX_NAMESPACE": "job.1"}).doubt is not None
    assert place({"PMIX_RANK": "1", "PMIX_NAMESPACE": "job.1"}).step == "PMIx-job.1"
    assert node_of(place({"PMI_RANK": "0", "PMI_SIZE": "1"})) == (0, 1, 0)


# --- Cray PALS ---


@pytest.mark.parametrize(("host", "node"), [("n2", 0), ("n0", 1), ("n1", 2)])
def test_pals_counts_the_nodes(pbs: dict[str, str], host: str, node: int) -> None:
    found = place({**pbs, **pals(4 * node + 3, 12, 3, 4, node)}, host)
    assert node_of(found) == (node, 3, 3)
    assert found.leader == "n2.site.org"
    assert found.job == "pbs-4711.server"
    assert found.step is not None
    assert found.step.endswith("0a3f7c1e-2b7d-4d57-9f6f-1f0c7f2e9a11")


def test_ranks_that_pals_deals_over_the_nodes_leave_a_doubt(pbs: dict[str, str]) -> None:
    assert place({**pbs, **pals(7, 12, 2, 4, 1)}).doubt is not None


def test_pals_with_more_ranks_on_some_nodes_leaves_a_doubt() -> None:
    assert place(pals(8, 12, 0, 4, 1)).doubt is not None  # 8 and 4
    assert place(pals(0, 12, 0, 8, 0)).doubt is not None
    assert place(pals(2, 12, 0, 4, 1)).doubt is not None  # 2, 4 and 6


# --- PBS ---


@pytest.mark.parametrize(("host", "node"), [("n2", 0), ("n0", 1), ("n1.other.net", 2)])
def test_a_pbs_job_counts_each_host_once(pbs: dict[str, str], host: str, node: int) -> None:
    found = place(pbs, host)
    assert node_of(found) == (node, 3, 0)
    assert (found.job, found.step, found.leader) == ("pbs-4711.server", None, None)
    assert found.origin == "PBS"


def test_a_task_of_pbsdsh_knows_its_node_s_number(pbs: dict[str, str]) -> None:
    task = {"PBS_NODENUM": "2", "PBS_TASKNUM": "146", "PBS_VNODENUM": "5"}
    assert node_of(place({**pbs, **task}, "n1-ib0")) == (2, 3, 0)
    assert node_of(place({**pbs, **task}, "n0")) == (1, 3, 0)  # it was passed on


def test_where_the_file_of_hosts_is_not_readable_there_is_a_doubt(pbs: dict[str, str]) -> None:
    elsewhere = {**pbs, "PBS_NODEFILE": "/no/such/file"}
    assert place({**elsewhere, "PBS_NODENUM": "1"}).doubt is not None
    assert node_of(place({**elsewhere, "PBS_NODENUM": "1", "PBS_NUM_NODES": "2"})) == (1, 2, 0)
    assert place(pbs, "stranger").doubt is not None


def test_a_pbs_job_on_one_node_needs_no_list() -> None:
    assert node_of(place({"PBS_JOBID": "1.server", "PBS_NUM_NODES": "1"})) == (0, 1, 0)


# --- LSF ---


@pytest.mark.parametrize(("host", "node"), [("a01n01", 0), ("a01n02", 1)])
def test_an_lsf_job_counts_each_host_but_the_one_that_only_launches(
    lsf: dict[str, str], host: str, node: int
) -> None:
    found = place(lsf, host)
    assert node_of(found) == (node, 2, 0)
    assert (found.job, found.origin) == ("lsf-88", "LSF")
    assert place(lsf, "batch1").doubt is not None


@pytest.mark.parametrize(
    "hosts",
    [
        {"LSB_MCPU_HOSTS": "a01n01 2 a01n02 2 "},
        {"LSB_HOSTS": "a01n01 a01n01 a01n02 a01n02"},
    ],
    ids=["LSB_MCPU_HOSTS", "LSB_HOSTS"],
)
def test_lsf_s_other_lists_are_understood(hosts: dict[str, str]) -> None:
    environment = {"LSB_JOBID": "88", **hosts}
    assert node_of(place(environment, "a01n02.site")) == (1, 2, 0)


def test_an_array_s_elements_are_jobs_that_differ(lsf: dict[str, str]) -> None:
    assert place({**lsf, "LSB_JOBINDEX": "7"}, "a01n01").job == "lsf-88[7]"


@pytest.mark.parametrize("launcher", ["batch1", "lassen708"])
def test_jsrun_never_uses_the_host_that_launches(
    tmp_path: Path, lsf: dict[str, str], launcher: str
) -> None:
    (tmp_path / "hosts").write_text(f"{launcher}\na01n01\na01n02\n")
    found = place({**lsf, **jsrun(5, 6, 2, 3)}, "a01n02")
    assert node_of(found) == (1, 2, 2)
    assert found.leader == "a01n01"
    assert found.step == "lsf-88.jsrun-1"
    assert node_of(place({**lsf, **jsrun(1, 2, 0, 1)}, "a01n02")) == (1, 2, 0)


# --- the user ---


def test_what_the_user_says_of_the_nodes_is_believed() -> None:
    assert place({}, rank=2, world_size=5) == Placement("n0", 2, 5, 0, None, None, None, "--rank")


def test_what_the_user_says_settles_a_doubt() -> None:
    found = place(open_mpi(5, 8, 1, 4), rank=1, world_size=2)
    assert node_of(found) == (1, 2, 1)
    assert found.step is not None
    require_node(found, "--share")


def test_all_else_is_still_the_scheduler_s() -> None:
    found = place(slurm_step(1, 1), rank=1, world_size=2)
    assert found == Placement("n3", 1, 2, 1, "slurm-4711", "slurm-4711.3.0", "n2", "--rank")


def test_a_loop_of_steps_of_one_node_has_no_step_in_common() -> None:
    step = {"SLURM_STEP_NUM_NODES": "1", "SLURM_STEP_NODELIST": "n2"}
    found = place(slurm_step(0, **step), rank=2, world_size=4)
    assert (found.node, found.nodes) == (2, 4)
    assert (found.job, found.step, found.leader) == ("slurm-4711", None, None)


def test_the_user_overrules_variables_that_make_no_sense() -> None:
    assert node_of(place({**slurm_step(0), "SLURM_NODEID": "x"}, rank=0, world_size=2)) == (0, 2, 0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank": 1}, "--rank is given without --world_size"),
        ({"world_size": 1}, "--world_size is given without --rank"),
        ({"rank": 2, "world_size": 2}, "--rank 2 is not one of 2"),
        ({"rank": -1, "world_size": 2}, "--rank -1 is not one of 2"),
        ({"rank": 0, "world_size": 0}, "--rank 0 is not one of 0"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_what_the_user_cannot_mean_is_refused(options: dict[str, int], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        place({}, **options)


# --- contradictions ---


@pytest.mark.parametrize(
    ("environment", "names"),
    [
        ({**slurm_step(0), "SLURM_NODEID": "2"}, ["SLURM_NODEID", "SLURM_STEP_NUM_NODES"]),
        ({**slurm_step(0), "SLURM_NODEID": "one"}, ["SLURM_NODEID", "'one'"]),
        ({**slurm_step(0), "SLURM_NODEID": ""}, ["SLURM_NODEID", "not set"]),
        ({**slurm_step(0), "SLURM_LOCALID": "-1"}, ["SLURM_LOCALID"]),
        ({**slurm_step(0), "SLURM_STEP_NODELIST": "n[2-"}, ["SLURM_STEP_NODELIST"]),
        ({**SLURM_BATCH, "SLURM_NNODES": "²"}, ["SLURM_NNODES"]),
        (open_mpi(4, 4, 0, 1), ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"]),
        (open_mpi(0, 4, 2, 2), ["OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"]),
        ({**open_mpi(0, 4, 0, 1), "OMPI_COMM_WORLD_SIZE": "x\ny"}, ["OMPI_COMM_WORLD_SIZE"]),
        ({"PMI_RANK": "1", "PMI_SIZE": "0"}, ["PMI_RANK", "PMI_SIZE"]),
        (pals(0, 2, 0, 1, 0) | {"PALS_NODEID": "a"}, ["PALS_NODEID"]),
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


def test_a_task_number_of_pbs_beyond_its_hosts_is_a_contradiction(pbs: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="PBS_NODENUM"):
        place({**pbs, "PBS_NODENUM": "3"}, "stranger")
