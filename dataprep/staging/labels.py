"""What makes a directory a data set, or a part of one: not copied, but written once all is there.

So whatever kills a copier, what it leaves behind does not look like a finished data set.
"""

from __future__ import annotations

import hashlib
import os

from dataprep.build.manifest import NAME as MANIFEST
from dataprep.build.manifest import PART
from dataprep.staging.errand import Errand
from dataprep.staging.inventory import SourceFile
from dataprep.staging.landed import Landed
from dataprep.staging.target.directory import StageDirectory
from dataprep.system.state_files import to_json

LABELS = frozenset({MANIFEST, PART})


def copied_files(errand: Errand) -> list[SourceFile]:
    """What is copied of a selection: all but the labels of a data set, which are written last."""
    labels = LABELS if errand.inventory.manifest is not None else frozenset()
    return [file for file in errand.selection.files if file.path not in labels]


def _labels(errand: Errand) -> dict[str, bytes | None]:
    """What makes a directory a data set, in the order of writing; None for what is not to be."""
    manifest, part = errand.inventory.manifest, errand.selection.part
    if manifest is None:
        return {}
    return {PART: None if part is None else part.encode(), MANIFEST: to_json(manifest)}


def labels_here(errand: Errand, directory: StageDirectory) -> list[Landed] | None:
    """The labels, if all are as they should be: two nodes' parts may be of the same files."""
    wanted = _labels(errand)
    if any(directory.read(name) != data for name, data in wanted.items()):
        return None
    return [_landed(directory, name, data) for name, data in wanted.items() if data is not None]


def remove_labels(errand: Errand, directory: StageDirectory) -> None:
    """From here on it is no data set, nor a part of one.

    Raises:
        StagingError: the storage is read-only or damaged.
    """
    for name in _labels(errand):
        directory.remove(name)


def write_labels(errand: Errand, directory: StageDirectory) -> list[Landed]:
    """Write them, durably; the manifest last of all but the sentinel.

    Raises:
        StagingError: the storage is full, read-only, damaged, or gone.
    """
    landed = []
    for name, data in _labels(errand).items():
        if data is not None:
            directory.write(name, data)
            landed.append(_landed(directory, name, data))
    return landed


def _landed(directory: StageDirectory, name: str, data: bytes) -> Landed:
    found = os.stat(name, dir_fd=directory.descriptor, follow_symlinks=False)
    return Landed(name, len(data), hashlib.sha256(data).hexdigest(), found.st_mtime_ns)
