"""What a site sets for all its users: ``/etc/dataprep.toml``, as a frozen type."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct


class Site(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Defaults; what a user gives by option, or by a variable, wins.

    Attributes:
        scratch: directories that may be a node's own storage, the first that is there is taken;
            ``$USER`` and other variables are filled in, and one without its variable is passed.
        login_workers: cores to use outside of the scheduler's jobs.
        login_io_limit: ``--io_limit`` outside of the scheduler's jobs, ``200MB``.
        bandwidth: of ``dataprep stage``, ``500MB``.
        runner: of jobs, ``dask``.
        dask_slurm: of jobs with that runner, ``nodes=4,cores=32,memory=64GB,partition=prep``.
        lustre_stripe: ``auto``, ``off`` or a number of stripes.
        lustre_pool: of Lustre's targets.
    """

    scratch: tuple[str, ...] = ()
    login_workers: Annotated[int, Meta(ge=1)] | None = None
    login_io_limit: str | None = None
    bandwidth: str | None = None
    runner: str | None = None
    dask_slurm: str | None = None
    lustre_stripe: int | str | None = None
    lustre_pool: str | None = None
