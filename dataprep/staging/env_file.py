"""A file of shell variables that tells a batch script where the copy is."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path

from dataprep.errors import StagingError
from dataprep.staging.inventory import Inventory
from dataprep.system.messages import printable


def environment(inventory: Inventory, target: Path) -> dict[str, str]:
    """The variables, the same on every node of a job.

    HDF5 locks files that it reads, which file systems refuse and nobody needs for a finished set.
    """
    found = {
        "DATA_DIR": str(target),
        "DATAPREP_SOURCE": str(inventory.source),
        "DATAPREP_DIGEST": inventory.digest,
    }
    if inventory.manifest and inventory.manifest["sink"]["name"].startswith("hdf5"):
        found["HDF5_USE_FILE_LOCKING"] = "FALSE"
    return found


def render(variables: Mapping[str, str]) -> str:
    """Lines for ``source FILE``."""
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())


def write_environment(path: Path, variables: Mapping[str, str]) -> None:
    """Write the file anew, whole or not at all; any number of nodes may do so at once.

    Raises:
        StagingError: it cannot be written.
    """
    from dataprep.system.durable_files import write_durably

    try:
        write_durably(path, os.fsencode(render(variables)))
    except OSError as error:
        raise StagingError(
            f"--env_file {printable(str(path))} cannot be written: {error.strerror or error}; "
            "the copy itself is whole"
        ) from error
