"""What the user asked for, in the library's words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from dataprep.build.seal import MaxBad
from dataprep.images import Recipe
from dataprep.sinks import Layout
from dataprep.system.lustre.rules import Striping

if TYPE_CHECKING:
    from dataprep.index.order import Shuffle

EVERY_SPLIT = "*"
"""In `Request.num_shards`: the count of every split that is not named."""


@dataclass(frozen=True, slots=True)
class Request:
    """What the user asked for; the command line's options under their names."""

    dataset: str
    raw: Path
    out: Path
    recipe: Recipe
    max_bad: MaxBad
    dataset_options: Mapping[str, str] = field(default_factory=dict)
    sink: str = "tfrecord"
    sink_options: Mapping[str, str] = field(default_factory=dict)
    layout: Layout = "split"
    splits: tuple[str, ...] | None = None
    num_shards: Mapping[str, int] | None = None
    shuffle: Shuffle | None = None
    seed: int = 0
    limit: int | None = None
    index_dir: Path | None = None
    build_dir: Path | None = None
    keep_rejected: bool = False
    overwrite: bool = False
    striping: Striping = field(default_factory=Striping)
