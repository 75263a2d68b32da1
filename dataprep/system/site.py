"""The defaults of the site: one file, read once."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dataprep.errors import UsageError
from dataprep.system.messages import printable, refusal
from dataprep.system.regular_files import read_regular

if TYPE_CHECKING:  # msgspec takes a while to load, and most machines have no such file
    from dataprep_schemas.site import Site

VARIABLE: Final = "DATAPREP_CONFIG"
PLACE: Final = Path("/etc/dataprep.toml")


def site_file() -> Path | None:
    """Where the defaults are: what the variable names, nothing if it is empty, else in ``/etc``."""
    named = os.environ.get(VARIABLE)
    if named is not None:
        return Path(named) if named else None
    return PLACE if os.path.lexists(PLACE) else None


def site() -> Site | None:
    """The defaults; None if the site has no file of them.

    Raises:
        UsageError: the file cannot be read, or is not what it should be.
    """
    file = site_file()
    return None if file is None else _read(file)


def login_site() -> Site | None:
    """The same, where limits of login nodes hold: None in a job of Slurm, PBS or LSF."""
    in_job = any(map(os.environ.get, ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID")))
    return None if in_job else site()


@cache
def _read(file: Path) -> Site:
    import msgspec

    from dataprep_schemas.site import Site

    try:
        return msgspec.toml.decode(read_regular(file), type=Site)
    except OSError as error:
        why = refusal(error)
    except (ValueError, RecursionError) as error:  # of TOML, and of what it says
        why = f"{printable(str(error))}; it may have {', '.join(Site.__struct_fields__)}"
    raise UsageError(f"{file}, the site's defaults: {why}; mend it, or go without: {VARIABLE}=")
