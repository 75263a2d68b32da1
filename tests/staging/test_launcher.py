"""What starts a copier on every node: its words, its environment, and what is heard of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dataprep.errors import UsageError
from dataprep.staging.handshake import SECRET
from dataprep.staging.launcher import (
    answer,
    answers,
    launch_environment,
    launch_words,
    take_environment,
)
from dataprep.staging.placement import Job, require_one_component

SLURM = Job("Slurm", "slurm-7", ("n0", "n1"), 2)
PBS = Job("PBS", "pbs-7", ("n0", "n1"), 2)


@pytest.fixture(autouse=True)
def launchers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("srun", "mpiexec", "blaunch"):
        (tmp_path / name).write_text("#!/bin/sh\necho 'mpiexec (OpenRTE) 4.1.4'\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")


def test_srun_is_told_all_that_the_environment_could_tell_it() -> None:
    words = launch_words(SLURM, ["program"], together=False)
    assert words[:3] == ["srun", "--nodes=2", "--ntasks=2"]
    for word in ("--export=ALL", "--distribution=block", "--wait=0", "--kill-on-bad-exit=0"):
        assert word in words
    assert words[-1] == "program"


def test_a_heterogeneous_job_is_refused() -> None:
    require_one_component({"SLURM_HET_SIZE": "1"})
    with pytest.raises(UsageError, match="--het-group"):
        require_one_component({"SLURM_HET_SIZE": "2"})


@pytest.mark.parametrize(
    ("job", "heard", "unheard"),
    [
        (SLURM, "SLURM_CONF SLURM_JOB_ID SLURM_MPI_TYPE", "SLURM_LABELIO SRUN_X"),
        (SLURM, "SLURM_WORKING_CLUSTER OMPI_MCA_btl", "SLURM_TMPDIR SLURM_CONFIG SLURM_NTASKS"),
        (PBS, "OMPI_MCA_btl OMPI_MCA_plm_rsh_agent", "OMPI_MCA_rmaps_base_mapping_policy"),
        (PBS, "HYDRA_BOOTSTRAP MPIEXEC_PORT_RANGE", "HYDRA_ENV MPIEXEC_TIMEOUT I_MPI_PERHOST"),
        (PBS, "PBS_JOBID SLURM_LABELIO", "OMPI_MCA_orte_tag_output PRTE_MCA_rmaps_x"),
        (Job("LSF", "lsf-7", ("n0",), 1), "LSB_JOBID LSB_MCPU_HOSTS OMPI_MCA_rmaps", ""),
    ],
)
def test_a_launcher_hears_what_it_needs_and_its_processes_the_rest(
    job: Job, heard: str, unheard: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [*heard.split(), *unheard.split()]
    given = {name: f"{name} \udcff;" for name in names}
    launched = launch_environment(job, "secret", {**given, "PATH": "/bin"})
    assert {name for name in names if name in launched} == set(heard.split())
    assert launched[SECRET] == "secret"
    monkeypatch.setattr(os, "environ", {"PATH": "/bin"})
    monkeypatch.setenv("DATAPREP_LAUNCH", launched["DATAPREP_LAUNCH"])
    monkeypatch.setenv("SLURM_NTASKS", "2")  # the launcher's own word stands
    take_environment()
    assert "DATAPREP_LAUNCH" not in os.environ
    for name in names:
        if name != "SLURM_NTASKS" and not name.startswith(
            ("OMPI", "PRTE", "HYDRA", "MPI", "I_MPI")
        ):
            assert os.environ[name] == given[name]
    assert os.environ["SLURM_NTASKS"] == "2"


def test_open_mpi_is_told_to_hand_on_what_is_dataprep_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATAPREP_SCRATCH", "/nvme")
    words = " ".join(launch_words(PBS, ["program"]))
    for name in ("DATAPREP_SCRATCH", "DATAPREP_LAUNCH", SECRET):
        assert f"-x {name} " in words


def test_answers_are_found_among_whatever_else_is_printed() -> None:
    place = "/scratch/it's a\nplace;é\udcff"
    out = f"welcome\n0: {answer('copy', place)}\n[1,0]<stdout>:{answer('begun')} x{answer('copy')}"
    assert answers(out, "copy") == [place, ""]
    assert answers(out, "begun") == [""]
    assert answers(out, "ready") == []
