"""What Megatron-Energon wants beside the archives; ``energon prepare`` 7 makes the same.

``train/.nv-meta`` has ``.info.json``, how many samples each archive has; ``split.yaml``, which
archives are of which part; and ``dataset.yaml``, what a sample is. Beside each archive is
``.tar.idx``: where each sample begins and the last one ends, 64-bit little-endian. Left out is
``index.sqlite``, for reading by key, whose keys must be unique in a split; stems are in a shard.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from dataprep.sinks.base import FinishedShard, WrittenFile
from dataprep.sinks.example import DatasetInfo
from dataprep.sinks.hashed_file import write_file

_FOLDER = ".nv-meta"
_FILES = (".info.json", "split.yaml", "dataset.yaml")
_PARTS = {"validation": "val"}  # what Energon calls it
_CLASSIFIED = {
    "sample_type": {"__module__": "megatron.energon", "__class__": "ImageClassificationSample"},
    "field_map": {"image": "jpg,png", "label": "cls"},
}
_CRUDE = {"__module__": "megatron.energon", "__class__": "CrudeWebdataset"}


def metadata_paths(split: str) -> list[PurePosixPath]:
    """The files of a split, relative to the output directory."""
    return [PurePosixPath(split, _FOLDER, name) for name in _FILES]


def write_metadata(
    paths: Sequence[Path], info: DatasetInfo, shards: Sequence[FinishedShard]
) -> list[WrittenFile]:
    """Write these files; archives without samples are left out, as Energon refuses them."""
    counts = {shard.names[0].name: shard.records for shard in shards if shard.records}
    split = shards[0].names[0].parent.name
    contents = (
        {"shard_counts": counts},
        {"split_parts": {_PARTS.get(split, split): list(counts)}, "exclude": []},
        _CRUDE if info.multilabel else _CLASSIFIED,
    )
    # JSON is YAML.
    return [
        write_file(path, json.dumps(content, indent=2).encode("ascii") + b"\n")
        for path, content in zip(paths, contents, strict=True)
    ]
