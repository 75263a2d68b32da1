"""What a site sets for all its users: ``/etc/dataprep.toml``, as a frozen type."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct


class Site(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Defaults; what a user gives by option, or by a variable, wins."""

    # Directories that may be a node's own storage, the first that is there is taken; ``$USER`` and
    # other variables are filled in, and one without its variable is passed.
    scratch: tuple[str, ...] = ()
    login_workers: Annotated[int, Meta(ge=1)] | None = None  # outside of the scheduler's jobs
    login_io_limit: str | None = None  # likewise ``--io_limit``, ``200MB``
    bandwidth: str | None = None  # of ``dataprep stage``, ``500MB``
    runner: str | None = None  # of jobs, ``dask``
    dask_slurm: str | None = None  # of these, ``nodes=4,cores=32,memory=64GB,partition=prep``
    lustre_stripe: int | str | None = None  # ``auto``, ``off`` or a number of stripes
    lustre_pool: str | None = None  # of Lustre's targets
