"""What ``mpirun`` and its like say of the process they have started."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dataprep.staging.nodes.schedulers import check_below, whole_number


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch of processes, and this one's place in it.

    Attributes:
        origin: the launcher's name.
        rank: of this process among all.
        size: how many processes there are; None if it does not say, as with all that follow.
        local_rank: of this process among those on its host.
        local_size: how many of them there are.
        node: index of this host, if the launcher counts hosts.
        name: what the launcher calls this launch.
    """

    origin: str
    rank: int
    size: int | None
    local_rank: int | None
    local_size: int | None
    node: int | None
    name: str | None


@dataclass(frozen=True, slots=True)
class _Launcher:
    """The variables of one launcher; of several names for one thing the first that is set counts.

    Attributes:
        origin: its name.
        sign: the variable that only its processes have.
        by_slurm: whether ``srun`` sets the same ones, in steps of its own.
    """

    origin: str
    sign: str
    rank: tuple[str, ...]
    size: tuple[str, ...] = ()
    local_rank: tuple[str, ...] = ()
    local_size: tuple[str, ...] = ()
    node: tuple[str, ...] = ()
    name: tuple[str, ...] = ()
    by_slurm: bool = False


# The more a launcher says the earlier it comes: jsrun also sets Open MPI's variables, Open MPI
# also PMIx's, Cray's also PMI's. Sources: Open MPI 4.1 and 5.0 and MPICH 5.0 as run; Cray PALS:
# Slurm's mpi/cray_shasta plugin and ALCF's scripts; jsrun: scripts of OLCF and LLNL.
_LAUNCHERS = (
    _Launcher(
        "jsrun",
        "JSM_NAMESPACE_RANK",
        rank=("JSM_NAMESPACE_RANK",),
        size=("JSM_NAMESPACE_SIZE",),
        local_rank=("JSM_NAMESPACE_LOCAL_RANK",),
        local_size=("JSM_NAMESPACE_LOCAL_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"),
        name=("PMIX_NAMESPACE",),
    ),
    _Launcher(
        "Open MPI",
        "OMPI_COMM_WORLD_RANK",
        rank=("OMPI_COMM_WORLD_RANK",),
        size=("OMPI_COMM_WORLD_SIZE",),
        local_rank=("OMPI_COMM_WORLD_LOCAL_RANK",),
        local_size=("OMPI_COMM_WORLD_LOCAL_SIZE",),
        name=("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"),
    ),
    _Launcher(
        "Cray PALS",
        "PALS_RANKID",
        rank=("PALS_RANKID",),
        size=("PMI_SIZE",),
        local_rank=("PALS_LOCAL_RANKID",),
        local_size=("PALS_LOCAL_SIZE", "PMI_LOCAL_SIZE"),
        node=("PALS_NODEID",),
        name=("PALS_APID",),
        by_slurm=True,
    ),
    _Launcher(
        "MVAPICH",
        "MV2_COMM_WORLD_RANK",
        rank=("MV2_COMM_WORLD_RANK",),
        size=("MV2_COMM_WORLD_SIZE",),
        local_rank=("MV2_COMM_WORLD_LOCAL_RANK",),
        local_size=("MV2_COMM_WORLD_LOCAL_SIZE",),
    ),
    _Launcher(
        "Hydra",  # MPICH's, Intel MPI's
        "MPI_LOCALRANKID",
        rank=("PMI_RANK", "PMIX_RANK"),
        size=("PMI_SIZE",),
        local_rank=("MPI_LOCALRANKID",),
        local_size=("MPI_LOCALNRANKS",),
    ),
    _Launcher(
        "PMI",
        "PMI_RANK",
        rank=("PMI_RANK",),
        size=("PMI_SIZE",),
        local_rank=("PMI_LOCAL_RANK",),
        local_size=("PMI_LOCAL_SIZE",),
        by_slurm=True,
    ),
    _Launcher("PMIx", "PMIX_RANK", rank=("PMIX_RANK",), name=("PMIX_NAMESPACE",), by_slurm=True),
)


def find_launch(environment: Mapping[str, str], *, in_slurm_step: bool) -> Launch | None:
    """What started this process, if it was a launcher other than ``srun``.

    Args:
        environment: the variables.
        in_slurm_step: there is a Slurm step; it may be ``srun``'s own, or that of a launcher's
            daemon, whose variables its processes inherit.

    Raises:
        UsageError: variables make no sense, or contradict each other.
    """
    for launcher in _LAUNCHERS:
        if environment.get(launcher.sign) and not (in_slurm_step and launcher.by_slurm):
            return _read(launcher, environment)
    return None


def _read(launcher: _Launcher, environment: Mapping[str, str]) -> Launch | None:
    rank = whole_number(environment, *launcher.rank)
    if rank is None:
        return None
    size = whole_number(environment, *launcher.size)
    local_rank = whole_number(environment, *launcher.local_rank)
    local_size = whole_number(environment, *launcher.local_size)
    if size is not None:
        check_below((_set(environment, launcher.rank), rank), (launcher.size[0], size))
    if local_rank is not None and local_size is not None:
        check_below(
            (_set(environment, launcher.local_rank), local_rank),
            (_set(environment, launcher.local_size), local_size),
        )
    name = next((environment[name] for name in launcher.name if environment.get(name)), None)
    return Launch(
        origin=launcher.origin,
        rank=rank,
        size=size,
        local_rank=local_rank,
        local_size=local_size,
        node=whole_number(environment, *launcher.node),
        name=name,
    )


def _set(environment: Mapping[str, str], names: tuple[str, ...]) -> str:
    """The first of some names that is set."""
    return next(name for name in names if environment.get(name))
