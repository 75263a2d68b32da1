"""``part.json``: which shards of a data set a node has, beside the manifest of all of it.

``dataprep stage`` copies the manifest as it is, since its hash must stay. With ``--share`` or
``--split`` only some of the shards that it names come along, and this file says which.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Final

from dataprep.errors import DatasetError
from dataprep.system.messages import some_of
from dataprep.system.regular_files import read_regular
from dataprep.system.state_files import parse
from dataprep_schemas.manifest import Manifest
from dataprep_schemas.state import Part

NAME: Final = "part.json"
_OURS: Final = b'"dataprep-part-'  # also of versions to come; the name is common
_REMEDY: Final = "stage the data set again"


def has_part(out: Path) -> bool:
    """Whether the ``part.json`` of a directory is one that staging wrote; else it is not ours.

    Raises:
        DatasetError: it cannot be read.
    """
    return _read(out / NAME) is not None


def read_part(out: Path, manifest: Manifest) -> Part | None:
    """What ``part.json`` says; None if there is none of ours, so everything should be here.

    Raises:
        DatasetError: it cannot be understood, or is a part of another data set.
    """
    path = out / NAME
    data = _read(path)
    if data is None:
        return None
    part = parse(data, Part, path, _REMEDY)
    if part.manifest_sha256 != manifest.sha256:
        raise DatasetError(f"{path} is of another data set; {_REMEDY}")
    for name, numbers in part.splits.items():
        known = manifest.splits.get(name)
        ascending = all(before < number for before, number in pairwise((-1, *numbers)))
        if known is None or not numbers or not ascending or numbers[-1] >= len(known.shards):
            raise DatasetError(f"{path} names shards of {name} that there are not; {_REMEDY}")
    return part


def described(part: Part) -> str:
    """For messages: ``part 2 of 4``, ``only validation``."""
    if part.nodes > 1:
        return f"part {part.node + 1} of {part.nodes}"
    return f"only {some_of(part.splits)}"


def _read(path: Path) -> bytes | None:
    """The file, if it is one of ours, whole or damaged."""
    try:
        data = read_regular(path)
    except (FileNotFoundError, IsADirectoryError):
        return None
    except OSError as error:
        raise DatasetError(f"{path} cannot be read: {error.strerror}; {_REMEDY}") from error
    return data if _OURS in data else None
