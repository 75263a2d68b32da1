"""What the user asked for, in the library's words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dataprep.assembly.seal import MaxBad
from dataprep.deal import Shuffle
from dataprep.images import Recipe
from dataprep.sinks import Layout


@dataclass(frozen=True, slots=True)
class Request:
    """What the user asked for."""

    dataset: str
    raw: Path
    out: Path
    recipe: Recipe
    max_bad: MaxBad
    sink: str = "tfrecord"
    layout: Layout = "split"
    splits: tuple[str, ...] | None = None
    num_shards: Mapping[str, int] | None = None
    shuffle: Shuffle | None = None
    seed: int = 0
    limit: int | None = None
    bbox_csv: Path | None = None
    index_dir: Path | None = None
    keep_rejected: bool = False
    overwrite: bool = False
