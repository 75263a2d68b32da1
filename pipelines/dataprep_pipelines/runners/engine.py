"""Which engine the user chose."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

DIRECT, DASK = "direct", "dask"
_OWN_NAMES = {"direct": DIRECT, "dask": DASK}  # Beam calls them DirectRunner and DaskRunner


@dataclass(frozen=True, slots=True)
class DaskChoice:
    """Which Dask cluster; exactly one of the first three is given.

    Attributes:
        address: of a scheduler, e.g. ``tcp://10.0.0.1:8786``.
        scheduler_file: a file in which a scheduler wrote its address.
        slurm: a cluster to be started in Slurm, e.g. ``nodes=4,cores=16,memory=32GB``.
        patience: seconds without any worker before the run gives up.
    """

    address: str | None = None
    scheduler_file: Path | None = None
    slurm: str | None = None
    patience: float = 300.0


@dataclass(frozen=True, slots=True)
class Engine:
    """Where and how parallel the graphs run, as the user asked for it.

    Attributes:
        workers: cores to keep busy on this machine.
        runner: ``direct``, ``dask``, or the name of one of Beam's runners.
        beam_options: options for Beam itself, passed through untouched.
        dask: with ``dask``, which cluster.
    """

    workers: int
    runner: str = DIRECT
    beam_options: tuple[str, ...] = ()
    dask: DaskChoice = field(default_factory=DaskChoice)

    @property
    def name(self) -> str:
        """The runner, by dataprep's own name for it if it has one."""
        return _OWN_NAMES.get(self.runner.lower().removesuffix("runner"), self.runner)

    @property
    def is_local(self) -> bool:
        """Whether the graphs run on this machine, under this program's control."""
        return self.name == DIRECT

    @property
    def is_dask(self) -> bool:
        """Whether the graphs run on a Dask cluster."""
        return self.name == DASK
