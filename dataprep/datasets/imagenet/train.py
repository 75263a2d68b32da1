"""Finds the ILSVRC2012 training images: an archive of class archives, or a tree of classes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from dataprep.archives.archives import basename
from dataprep.archives.names import is_image_name
from dataprep.archives.tars import Archive, Member, members
from dataprep.datasets.imagenet.layout import (
    TRAIN_ARCHIVE,
    TRAIN_FOLDER,
    ImageNetUnit,
    SplitFolder,
    SplitLayout,
    contradiction,
    folder_units,
    is_archive,
    open_folder,
    require_known,
    split_layout,
)
from dataprep.errors import SourceError
from dataprep.index import Ignored
from dataprep.system.messages import counted, printable, some_of

_TAR: Final = ".tar"


def find_train(raw: Path) -> SplitLayout | None:
    """The training split, or None if there is none.

    Raises:
        SourceError: two forms contradict each other, a class is unknown, images lie outside the
            class folders, or the archive is damaged.
    """
    folder = open_folder(raw, TRAIN_FOLDER)
    if is_archive(raw, TRAIN_ARCHIVE):
        if folder:
            raise contradiction("training", (TRAIN_ARCHIVE, f"{TRAIN_FOLDER}/"))
        return _archive_of_archives(raw)
    return _tree(folder) if folder else None


def _tree(found: SplitFolder) -> SplitLayout | None:
    archives = [name.removesuffix(_TAR) for name in found.files if name.endswith(_TAR)]
    others = [name for name in found.files if not name.endswith(_TAR)]
    _check_tree(found, archives, others)
    if not archives and not found.folders:
        return None
    parts = []
    if found.folders:
        parts.append(counted(len(found.folders), "class folder"))
    if archives:
        parts.append(counted(len(archives), "class archive") + ", read in place")
    reason = "neither a class folder nor a class archive"
    return split_layout(
        "train",
        f"{found.path}/ ({' and '.join(parts)})",
        [*folder_units("train", found), *(_archive_unit(found.path, name) for name in archives)],
        [*found.stray, *(Ignored(found.path, name, reason) for name in others)],
    )


def _check_tree(found: SplitFolder, archives: list[str], others: list[str]) -> None:
    loose = [f"{found.path}/{name}" for name in others if is_image_name(name)]
    if loose:
        raise SourceError(
            f"images outside a class folder: {some_of(loose)}; expected "
            f"{found.path}/<WordNet id>/*.JPEG; move them into their class folder"
        )
    require_known(
        [(name, f"{found.path}/{name}/") for name in found.folders]
        + [(name, f"{found.path}/{name}{_TAR}") for name in archives],
        "class folders or class archives",
    )
    both = [
        f"{found.path}/{name}/ and {found.path}/{name}{_TAR}"
        for name in set(archives).intersection(found.folders)
    ]
    if both:
        raise SourceError(
            f"found {some_of(both)}; expected each class in one form only; remove one of them"
        )


def _archive_unit(parent: str, synset: str) -> ImageNetUnit:
    container = f"{parent}/{synset}{_TAR}"
    return ImageNetUnit(f"train-{synset}", container, "train", "archive", category=synset)


def _archive_of_archives(raw: Path) -> SplitLayout:
    inner: dict[str, Member] = {}
    stray: list[Ignored] = []
    for member in members(raw, Archive(TRAIN_ARCHIVE)):
        name = basename(member.name)
        reason = member.refusal or ("hidden file" if name.startswith(".") else "")
        if reason:
            stray.append(Ignored(TRAIN_ARCHIVE, member.name, reason))
        else:
            _check_class_archive(name, member, inner)
            inner[name.removesuffix(_TAR)] = member
    if not inner:
        raise SourceError(
            f"{TRAIN_ARCHIVE} holds no class archives; expected n01440764.tar and others, as "
            "published; copy or download it again"
        )
    form = f"{TRAIN_ARCHIVE} ({counted(len(inner), 'class archive')}, read in place)"
    return split_layout("train", form, [_inner_unit(*item) for item in inner.items()], stray)


def _check_class_archive(name: str, member: Member, inner: Mapping[str, Member]) -> None:
    place = f"{printable(member.name)} in {TRAIN_ARCHIVE}"
    synset = name.removesuffix(_TAR)
    if synset == name:
        raise SourceError(
            f"found {place}; expected class archives only, such as n01440764.tar, as published; "
            "if it is an archive of a tree, unpack it"
        )
    require_known([(synset, place)], "class archives")
    if synset in inner:
        raise SourceError(
            f"{TRAIN_ARCHIVE} holds {name} twice, at bytes {inner[synset].offset} and "
            f"{member.offset}; expected each class once; copy or download it again"
        )


def _inner_unit(synset: str, member: Member) -> ImageNetUnit:
    return ImageNetUnit(
        split="train",
        name=f"train-{synset}",
        kind="archive",
        container=TRAIN_ARCHIVE,
        offset=member.offset,
        size=member.size,
        inner=f"{synset}{_TAR}",
        category=synset,
    )
