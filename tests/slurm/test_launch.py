"""`dataprep stage … -- COMMAND` in a batch script: what the user has set is for COMMAND's steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.slurm.cluster import Cluster

pytestmark = [pytest.mark.slurm, pytest.mark.thorough]

# Each changes, or breaks, an srun that hears of it.
_MEANT_FOR_COMMAND = {
    "SLURM_LABELIO": "1",
    "SLURM_STDOUTMODE": "none",
    "SLURM_STDERRMODE": "none",
    "SLURM_STDINMODE": "none",
    "SLURM_UNBUFFEREDIO": "1",
    "SLURM_DISTRIBUTION": "arbitrary",
    "SLURM_HOSTFILE": "{root}/hostfile",
    "SLURM_BCAST": "{root}/copy",
    "SLURM_TASK_PROLOG": "{root}/says",
    "SLURM_TASK_EPILOG": "{root}/says",
    "SLURM_PROLOG": "{root}/says",
    "SLURM_EPILOG": "{root}/says",
    "SLURM_NTASKS": "7",
    "SLURM_NNODES": "2",
    "SLURM_NTASKS_PER_NODE": "3",
    "SRUN_CPUS_PER_TASK": "5",
    "SLURM_CPU_BIND": "map_cpu:77",
    "SLURM_MEM_PER_NODE": "999999",
    "SLURM_GRES": "gpu:1",
    "SLURM_GPUS_PER_TASK": "1",
    "SLURM_CONSTRAINT": "nowhere",
    "SLURM_EXCLUSIVE": "1",
    "SLURM_EXACT": "1",
    "SLURM_WORKING_DIR": "/nowhere",
    "SLURM_EXPORT_ENV": "NONE",
    "SRUN_EXPORT_ENV": "NONE",
    "SLURM_TIMELIMIT": "0:01",
    "SLURM_WAIT": "1",
    "SLURM_TEST_EXEC": "1",
    "SLURM_THREADS": "99",
}


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    path = tmp_path / "src"
    path.mkdir()
    for number in range(4):
        (path / f"part-{number}").write_bytes(bytes([number]) * 1000)
    return path


def staged(cluster: Cluster, node: str) -> int:
    return sum("/part-" in path for path in cluster.listing(node))


def test_what_is_set_for_the_command_s_steps_is_theirs_alone(cluster: Cluster, plain: Path) -> None:
    says = cluster.root / "says"
    says.write_text("#!/bin/sh\necho print welcome to the cluster\n")
    says.chmod(0o755)
    (cluster.root / "hostfile").write_text("n1\nn0\nn1\n")
    given = {name: text.format(root=cluster.root) for name, text in _MEANT_FOR_COMMAND.items()}
    exports = "\n".join(f"export {name}={text}" for name, text in given.items())
    stage = f"dataprep stage {plain} -- bash -c 'echo in $DATA_DIR; env'"
    stage = stage.replace("$DATA_DIR", '"$DATA_DIR"')
    job = cluster.submit(f"#!/bin/bash\n#SBATCH --nodes=2\n{exports}\n{stage}\n")
    ended = cluster.wait(job)
    assert ended.code == 0, ended.out
    assert f"in {cluster.scratch}/" in ended.out
    for name, text in given.items():
        assert f"\n{name}={text}\n" in ended.out, name
    assert "DATAPREP_LAUNCH" not in ended.out
    assert "copied to 2 nodes" in ended.out
    assert [staged(cluster, node) for node in ("n0", "n1")] == [0, 0]


def test_copies_go_where_the_script_says_in_a_job_that_has_nothing_of_the_submitter_s(
    cluster: Cluster, plain: Path
) -> None:
    exports = "\n".join(f"export {name}='{text}'" for name, text in cluster.environment.items())
    # A site's own variable, which looks like one of Slurm's.
    own = f"{exports}\nunset DATAPREP_SCRATCH\nexport SLURM_TMPDIR='{cluster.scratch}'\n"
    head = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --export=NONE\n"
    stage = f"dataprep stage {plain} -- bash -c 'echo \"in $DATA_DIR\"'"
    ended = cluster.wait(cluster.submit(f"{head}{own}{stage}\n"))
    assert ended.code == 0, ended.out
    assert f"in {cluster.scratch}/" in ended.out
    assert "copied to 2 nodes" in ended.out


def test_a_step_that_cannot_start_is_not_waited_for(cluster: Cluster, plain: Path) -> None:
    """As where a node's daemon hangs."""
    slow = cluster.root / "slow"
    slow.mkdir()
    (slow / "srun").write_text("#!/bin/sh\nexec sleep 600\n")
    (slow / "srun").chmod(0o755)
    stage = f"PATH={slow}:$PATH dataprep stage {plain} --rendezvous_seconds 1 -- true"
    ended = cluster.wait(cluster.submit(f"#!/bin/bash\n#SBATCH --nodes=2\n{stage}\n"))
    assert ended.code == 1, ended.out
    assert "srun did not start a process on every node: 0 of 2 nodes answered" in ended.out
