"""Which files are masks, and of which image each is: by a folder, by what names end with, or both.

A mask has its image's path in a tree of its own, and another suffix: ``annotations/a/x.png`` of
``images/a/x.jpg``. The tables of the index are joined by that: `dataprep.tables.masks`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import msgspec

from dataprep.archives.containers import container_kind, container_stem
from dataprep.archives.listing import StoredImage, basename, below, stem_of
from dataprep.datasets.folder.layout import Container, ContainerUnit, containers_of, make_units
from dataprep.datasets.folder.options import FolderOptions
from dataprep.datasets.lists import read_lines
from dataprep.datasets.raw_directory import entries_of
from dataprep.datasets.splits import split_of_folder
from dataprep.errors import SourceError, UsageError
from dataprep.rows import Row
from dataprep.system.messages import printable
from dataprep_schemas.fields import MASK, Field

_MOST: Final = 254  # 255 is a pixel of which nothing is said


@dataclass(frozen=True, slots=True)
class MaskFiles:
    """What tells masks from images.

    Attributes:
        folder: a path in the raw directory or in an archive, or the name of an archive; or, of one
            component, the name of folders anywhere. Empty: masks are beside their images.
        image_end: what the name of an image ends with, before its suffix.
        mask_end: what that of its mask ends with instead, perhaps with the suffix; empty: the same.
    """

    folder: str
    image_end: str
    mask_end: str

    def image_of(self, path: str) -> str | None:
        """The path of a mask's image, without its suffix; None if the file is no mask."""
        if self.folder:
            folders = path.split("/")[:-1]
            if path.startswith(f"{self.folder}/"):
                path = path[len(self.folder) + 1 :]
            elif self.folder in folders:
                at = folders.index(self.folder)
                path = "/".join([*folders[:at], *folders[at + 1 :], basename(path)])
            else:
                return None
        stem = stem_of(path)
        if not self.mask_end:
            return stem
        for name in (path, stem):
            if name.endswith(self.mask_end) and basename(name) != self.mask_end:
                return name[: len(name) - len(self.mask_end)] + self.image_end
        return None


def mask_files(options: FolderOptions) -> MaskFiles | None:
    """What the options say of masks; None if nothing."""
    if not (options.mask_dir or options.mask_suffix):
        return None
    image_end, equals, mask_end = options.mask_suffix.partition("=")
    return MaskFiles(options.mask_dir, *((image_end, mask_end) if equals else ("", image_end)))


def mask_units(raw: Path, options: FolderOptions) -> tuple[ContainerUnit, ...]:
    """What there is to scan for masks: their folder, or else all."""
    masks = mask_files(options)
    if masks is None and not options.mask_column:
        return ()
    if options.mask_runs:
        return ()
    folder = options.mask_dir if (raw / options.mask_dir).is_dir() else ""
    containers = containers_of(entries_of(raw, folder), loose=True)
    return tuple(replace(unit, masks=True) for unit in make_units("masks", "", containers))


def mask_field(options: FolderOptions, categories: Sequence[str]) -> Field:
    """The field of masks, with what their numbers mean, as far as that is known.

    Args:
        categories: of the outlines that masks are made of.

    Raises:
        SourceError: the list of what they mean is none, or there are too many.
        UsageError: what draws outlines is not installed.
    """
    if options.mask_outlines and find_spec("pycocotools") is None:
        raise UsageError(
            "--mask_outlines needs pycocotools; install it: pip install 'dataprep-shards[masks]'"
        )
    if options.mask_classes is not None:
        return msgspec.structs.replace(MASK, numbers=_listed_numbers(options.mask_classes))
    names = options.mask_column if options.mask_runs else ()
    names = tuple(categories) if options.mask_outlines else names
    if len(names) > _MOST:
        raise SourceError(f"{len(names)} categories; a mask can tell {_MOST} apart at most")
    numbers = enumerate(("background", *names) if names else ())
    return msgspec.structs.replace(MASK, numbers=tuple(numbers))


def _listed_numbers(path: Path) -> tuple[tuple[int, str], ...]:
    place, found = printable(str(path)), dict[int, str]()
    for line, text in read_lines(path).items():
        before, tab, after = text.partition("\t")
        number = int(before) if tab and before.strip().isdecimal() else len(found)
        name = (after if tab else before).strip()
        if number > _MOST + 1 or number in found or (tab and not before.strip().isdecimal()):
            raise SourceError(
                f"{place}, line {line}: {printable(text)}; expected a name a line, or a number "
                "from 0 to 255 with a TAB and a name behind it, each number once"
            )
        found[number] = name
    return tuple(sorted(found.items()))


def is_mask(masks: MaskFiles | None, container: Container, image: StoredImage) -> bool:
    """Whether a file is a mask, and not an image."""
    return masks is not None and _image_of(masks, container, image) is not None


def mask_rows(
    masks: MaskFiles | None, container: Container, images: Sequence[StoredImage], folder: str = ""
) -> list[tuple[str, Row]]:
    """The split, if a folder tells it, and a row of each mask in a container.

    Its alias is the path of its image, without suffix.

    Args:
        masks: None: a list has the paths of masks.
        folder: below which these may start.
    """
    found = []
    for image in images:
        path = image.path
        if not container_kind(container.path):
            path = f"{container.path}/{path}".lstrip("/")
        if masks is None:
            found.append(("", image.row(path, (), alias=below(path, folder) or path)))
        elif (alias := _image_of(masks, container, image)) is not None:
            top, _, rest = alias.partition("/")
            split = split_of_folder(top) if rest else ""
            found.append((split, image.row(path, (), alias=alias)))
    return found


def _image_of(masks: MaskFiles, container: Container, image: StoredImage) -> str | None:
    if container_kind(container.path):
        found = masks.image_of(image.path)
        if found is None and masks.folder:  # the archive may be called so
            found = masks.image_of(f"{container_stem(container.path)}/{image.path}")
        return found
    return masks.image_of(f"{container.path}/{image.path}".lstrip("/"))
