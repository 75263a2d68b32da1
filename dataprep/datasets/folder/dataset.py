"""Any other image set: class folders, archives of them, or files that list the images."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Final, Literal, cast

from dataprep.archives.containers import folder_fingerprint, stat_fingerprint
from dataprep.archives.listing import folder_of
from dataprep.datasets.base import (
    Classes,
    Dataset,
    Found,
    ScanUnit,
    require_labels,
    wanted_splits,
)
from dataprep.datasets.folder.beside import only_class, refuse_classes
from dataprep.datasets.folder.folders import Folders
from dataprep.datasets.folder.headers import KeyedHash, header_fields
from dataprep.datasets.folder.layout import (
    ContainerUnit,
    FolderFound,
    ListingUnit,
    Source,
    lists_of,
)
from dataprep.datasets.folder.mask_files import mask_field, mask_units
from dataprep.datasets.folder.options import FolderOptions
from dataprep.datasets.lists import classes_by_name, load_class_list
from dataprep.rows import Scanned
from dataprep.system.messages import unreadable
from dataprep.system.state_files import file_sha256
from dataprep_schemas.fields import BOX_LABELS, BOXES

# Part of every fingerprint: raise it whenever the same raw data would scan differently.
_SCAN_RULES: Final = 10


class Folder(Dataset):
    """Images in class folders or archives, or listed in a file.

    A key is an image's path below the split's folder, the same for every form: a file of a class
    archive has the archive's name before it. A listed image has the path it is listed with.
    """

    name: ClassVar[str] = "folder"
    summary: ClassVar[str] = """Any image set: class folders, archives of them, or a listing.

    Without --listing, a folder's name is the class of what is in it: CLASS/x.jpg, also in .tar,
    .tar.gz, .tar.zst, .tar.xz or .zip archives; an archive whose images are in no folder is a class
    itself. Top folders or archives called train, val or test are splits. With --listing FILE, the
    file names the images, which are files below the raw directory or in archives there, and their
    labels.
    """
    Options: ClassVar[type[FolderOptions]] = FolderOptions
    options: FolderOptions
    formats: ClassVar[frozenset[Literal["JPEG", "PNG"]]] = frozenset({"JPEG", "PNG"})

    def config(self) -> Mapping[str, str]:
        """The options that shape the index; no paths of files."""
        others = ("listing", "classes", "stratify", "splits_from", "hash_key")
        shaping = {name: it for name, it in super().config().items() if name not in others}
        if self._hashes is not None:
            shaping["hash_key"] = self._hashes.fingerprint
        stratified = self.options.cut is not None and self.options.stratify
        return {**shaping, "stratify": "yes"} if stratified else shaping

    def name_classes(self, found: Found, names: Collection[str]) -> Classes:
        """By name, by value if all are whole numbers; of annotations in the order of their ids."""
        if self.options.annotations:
            ordered = dict.fromkeys(text.partition("\t")[2] for text in sorted(names))
            return Classes([(name, name) for name in ordered])
        require_labels(names)
        of_folders = _is_of_folders(found)
        named = classes_by_name(names, of_folders=of_folders)
        if of_folders and len(named.classes) == 1:
            return replace(named, reason=only_class(named.classes[0][0]))
        return named

    def check_classes(
        self,
        found: Found,
        names: Sequence[str],
        by_split: Mapping[str, Collection[str]],
        folders: Collection[str],
    ) -> None:
        """Refuse folders that can be no classes; what a file says is believed."""
        if _is_of_folders(found):
            above: dict[str, set[str]] = {}
            for unit in cast("tuple[ContainerUnit, ...]", found.units):
                for each in () if unit.masks else unit.containers:
                    above.setdefault(each.prefix, set()).add(folder_of(each.path))
            there = {} if self.options.cut else by_split
            refuse_classes(names, there, folders, above, self.options)

    def find(self, raw: Path, splits: Sequence[str] | None) -> Found:
        """Detect what there is from the listings of the top two levels; no archive is opened.

        Of a listing, the names of its columns are read; annotations are read whole.
        """
        wanted = self.options
        known = None if wanted.classes is None else load_class_list(wanted.classes)
        headers = header_fields(wanted)
        lists = lists_of(raw, wanted)
        if not lists:
            wanted.refuse_options_of_listings()
        found = self._source(listed=bool(lists)).find(raw, lists)
        several = wanted.label_separator or wanted.no_label
        multilabel = bool(found.multilabel or several or wanted.unlabelled)
        fields = [*found.fields, *headers]
        if multilabel and BOXES in fields and BOX_LABELS not in fields:
            fields.insert(1, BOX_LABELS)
        cut = None
        if wanted.cut is not None and wanted.stratify:
            cut = replace(wanted.cut.stratified, kept=wanted.splits_from)
        classes = found.classes if known is None else known.classes
        if wanted.has_masks:
            fields.append(mask_field(wanted, [name for _, name in found.names]))
        units, there = (*found.units, *mask_units(raw, wanted)), found.splits
        hint = wanted.hint if there == () else ()
        if wanted.cut is not None:
            there = wanted.cut.splits
        elif there == ():  # nothing tells any
            there = (wanted.split_name,)
        if splits is not None and there is not None:
            there = wanted_splits(there, splits)
            units = tuple(unit for unit in units if _is_wanted(unit, splits))
        return replace(
            found,
            description=(*found.description, *hint),
            units=units,
            splits=there,
            fields=tuple(fields),
            classes=() if wanted.unlabelled else classes,
            multilabel=multilabel,
            cut=cut,
            names_files=not wanted.hash_keys,
            mask_values=tuple((wanted.mask_values or {}).items()),
            whole=True,
            known=known or found.known,
        )

    def scan(self, raw: Path, found: Found, unit: ScanUnit) -> Scanned:
        """List one unit: some folders and archives, or the listing."""
        source = self._source(listed=isinstance(unit, ListingUnit))
        return source.scan(raw, cast("FolderFound", found), unit)

    def fingerprint(self, raw: Path, unit: ScanUnit) -> str:
        """Identify what `scan` would read from by size and modification time.

        A folder's time changes when entries are added, removed or renamed in it: that is noticed
        in a class folder and in every folder below, which takes listing all of them. When a file
        is rewritten in place, `read_image` notices that by its size. Of the files in a listing
        nothing is looked at. A listing counts by its content.
        """
        seen: list[object] = []
        if isinstance(unit, ContainerUnit):
            for container in unit.containers:
                see = folder_fingerprint if container.prefix else stat_fingerprint
                seen.append(see(raw, container.path))
        for path in unit.paths if isinstance(unit, ListingUnit) else ():
            from dataprep.datasets.folder import labelme, voc, yolo

            place = raw / path
            try:
                # The same content elsewhere is the same list.
                files = [place]
                if place.is_dir():
                    files = [*voc.files_of(place), *labelme.files_of(place)]
                if place.suffix.lower() in yolo.SUFFIXES:
                    files = yolo.files_of(raw, Path(path))
                for each in files:
                    name = each.suffix if each == place else os.path.relpath(each, place.parent)
                    seen.append([name, *stat_fingerprint(raw, str(each)), file_sha256(each)])
            except OSError as error:
                raise unreadable(path, error) from error
        return json.dumps([_SCAN_RULES, seen], separators=(",", ":"))

    def _source(self, *, listed: bool) -> Source:
        """What finds and scans: lists, or else folders and archives."""
        kind: type[Source] = Folders
        if listed and self.options.annotations:
            from dataprep.datasets.folder.annotated import Annotated

            kind = Annotated
        elif listed:
            from dataprep.datasets.folder.listed import Listed  # late: it loads DuckDB and Arrow

            kind = Listed
        return kind(self.options, self._hashes)

    @cached_property
    def _hashes(self) -> KeyedHash | None:
        return None if self.options.hash_key is None else KeyedHash(self.options.hash_key)


def _is_of_folders(found: Found) -> bool:
    """Whether nothing but folders tells the classes."""
    return not any(isinstance(unit, ListingUnit) for unit in found.units)


def _is_wanted(unit: ScanUnit, splits: Sequence[str]) -> bool:
    return not isinstance(unit, ContainerUnit) or not unit.split or unit.split in splits
