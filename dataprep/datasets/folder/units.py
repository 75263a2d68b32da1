"""What there is to scan in a folder of images: class folders and archives, and a listing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from dataprep.archives.kinds import container_kind
from dataprep.datasets.base import ScanUnit
from dataprep.index import Ignored

# ImageNet-22K is 21,841 class archives: a unit each would be that many small files of the index.
_ENOUGH_UNITS: Final = 350
_MOST_CONTAINERS: Final = 64


@dataclass(frozen=True, slots=True)
class Container:
    """A folder, searched to any depth, or an archive.

    Attributes:
        path: relative to the raw directory.
        prefix: of a folder, what stands before its images' paths; empty for an archive.
        stem: of an archive whose images may lie in no folder, the class they then have.
    """

    path: str
    prefix: str = ""
    stem: str = ""

    @property
    def order(self) -> str:
        """Sorts containers as their images' keys sort: ``/`` comes after ``-``."""
        return f"{self.prefix or self.stem}/"


@dataclass(frozen=True, slots=True)
class ContainerUnit(ScanUnit):
    """Consecutive folders and archives of one split.

    Attributes:
        split: the split of all of them; empty if their content or `Cut` tells.
        containers: at most 64, at least one.
        inside: the path below which an archive's images are taken; of folders it is part of the
            path already.
        stray: what lay beside them; reported with the first unit.
    """

    split: str
    containers: tuple[Container, ...]
    inside: str = ""
    stray: tuple[Ignored, ...] = ()


@dataclass(frozen=True, slots=True)
class ListingUnit(ScanUnit):
    """A listing.

    Attributes:
        top: the directory that the listed paths start from, relative to the raw directory; empty
            for that itself.
        packed: whether other units hold the images, which are in archives.
    """

    top: str
    packed: bool


def make_units(
    name: str,
    split: str,
    containers: Iterable[Container],
    inside: str = "",
    stray: Sequence[Ignored] = (),
) -> list[ContainerUnit]:
    """Put containers into about 350 units, or, if there are very many, 64 into each.

    A gzip archive is a unit of its own, because a unit has one file of restart points.

    Args:
        name: starts the units' names; safe as a file name.
        split: see `ContainerUnit`.
        containers: at least one.
        inside: see `ContainerUnit`.
        stray: see `ContainerUnit`.
    """
    batches: list[tuple[Container, ...]] = []
    several: list[Container] = []
    for container in sorted(containers, key=lambda container: (container.order, container.path)):
        if not container.prefix and container_kind(container.path) == "gzip":
            batches.append((container,))
        else:
            several.append(container)
    size = max(1, min(_MOST_CONTAINERS, -(-len(several) // _ENOUGH_UNITS)))
    batches += [tuple(several[at : at + size]) for at in range(0, len(several), size)]
    return [
        ContainerUnit(
            name=f"{name}-{number:05d}",
            container=batch[0].path,
            split=split,
            containers=batch,
            inside=inside,
            stray=tuple(stray) if number == 0 else (),
        )
        for number, batch in enumerate(batches)
    ]
