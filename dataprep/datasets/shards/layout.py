"""What others have packed: what the user says of it, what the files are, and of which split."""

from __future__ import annotations

import os
import re
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, Literal

from dataprep.archives.containers import codec_of, container_kind
from dataprep.archives.listing import is_clutter_folder, is_image_name, stem_of
from dataprep.archives.open_files import open_container
from dataprep.archives.packed import Codec
from dataprep.datasets.raw_directory import list_raw
from dataprep.datasets.splits import SPLIT_FOLDERS, parse_split, split_of_folder
from dataprep.errors import SinkError, SourceError, UsageError
from dataprep.formats.mds import INDEX, mds_samples, mds_shards
from dataprep.formats.recordio import MAGIC, recordio_samples
from dataprep.formats.samples import Sample
from dataprep.formats.tfrecord import HEADER, read_length, tfrecord_samples
from dataprep.formats.webdataset.listing import webdataset_samples
from dataprep.options import FILE, names, option
from dataprep.system.filesystems import walk
from dataprep.system.messages import counted, printable, some_of, unreadable
from dataprep.system.regular_files import open_regular

Kind = Literal["WebDataset", "Parquet", "TFRecord", "RecordIO", "MDS"]

# What reads the samples of a file; Parquet is read by columns.
SAMPLES: Final[Mapping[Kind, Callable[..., Iterator[Sample]]]] = {
    "WebDataset": webdataset_samples,
    "TFRecord": tfrecord_samples,
    "RecordIO": recordio_samples,
    "MDS": mds_samples,
}
_EXPECTED: Final = "WebDataset, Parquet, TFRecord, RecordIO or MDS files"
_HEAD: Final = 512  # bytes, a header of tar
_TAR: Final = (257, b"ustar")
_GZIP: Final = b"\x1f\x8b"
_WORDS: Final = re.compile(r"[-_. ]+")


@dataclass(frozen=True, kw_only=True)
class ShardsOptions:
    """What the user says of what others have packed."""

    files: str = option(
        "Only files whose names or paths match, such as 'train-*.tar'.", "", metavar="PATTERN"
    )
    label_field: str = option(
        "The field that is the label: cls, json.label, label, image/class/label, … [default: the "
        "only one that may be]",
        "",
        metavar="NAME",
    )
    image_field: str = option(
        "The field that is the image, where there are several: jpg, image, …", "", metavar="NAME"
    )
    key_field: str = option(
        "The field that names the image, or number: the file's name and the sample's number. "
        "[default: one that is called so, or the file name that the sample has]",
        "",
        metavar="NAME|number",
    )
    caption_field: str = option(
        "The field of texts that describe the image, or of lists of them: txt, json.caption, …",
        "",
        metavar="NAME",
    )
    attribute_fields: tuple[str, ...] = option(
        "Fields that are kept as attributes of each image, such as age,json.view; or all.",
        (),
        metavar="NAME,...|all",
        parse=names,
    )
    classes: Path | None = option(
        "A list of the classes in the order of their numbers: one a line, optionally with a TAB "
        "and its name after it.",
        None,
        **FILE,
    )
    label_base: Literal["auto", "0", "1"] = option(
        "The number of the first class. auto: 0 if it occurs; 1 if not, and all others do.", "auto"
    )
    unlabelled: bool = option("Take all images that there are, without classes.", False)
    split_name: str = option(
        "The split of all images, if no name of a file tells one.",
        "train",
        metavar="NAME",
        parse=parse_split,
    )

    def __post_init__(self) -> None:
        """Refuse what cannot be together.

        Raises:
            UsageError: names it.
        """
        other = "classes" if self.classes else "label_field" if self.label_field else ""
        if self.unlabelled and other:
            raise UsageError(f"--unlabelled with --{other}; leave one of them out")


def find_files(raw: Path, pattern: str) -> tuple[Kind, dict[str, Codec | None]]:
    """The files of one kind below the raw directory, sorted, and by what each is compressed.

    Of an MDS shard that lies there compressed and not, as streaming leaves it, the latter is taken.

    Args:
        pattern: that their names or paths must match, as a shell has it; empty: any.

    Raises:
        SourceError: there are none, or of several kinds, or they cannot be read.
    """
    list_raw(raw, _EXPECTED)
    _refuse_own(raw)
    found: dict[Kind, dict[str, Codec | None]] = defaultdict(dict)
    compressed: list[str] = []
    for folder, names_there in _folders(raw):
        listed = (mds_shards(raw, folder) if INDEX in names_there else None) or {}
        paths = {
            path: name
            for name in names_there
            for path in [f"{folder}/{name}" if folder else name]
            if not pattern or fnmatchcase(name, pattern) or fnmatchcase(path, pattern)
        }
        beside = {*paths.values()}
        for path, name in paths.items():
            if shard := listed.get(name):
                if name == shard.raw_data.basename or shard.raw_data.basename not in beside:
                    found["MDS"][path] = shard.codec(name)
                continue
            kind, codec = _kind_of(raw, path)
            if kind is not None:
                found[kind][path] = codec
            elif stem_of(name) in listed:
                compressed.append(path)
    if not found:
        there = f"; {some_of(compressed)} are compressed shards" if compressed else ""
        raise SourceError(
            f"no shards in {printable(str(raw))}{there}; expected {_EXPECTED}; check --raw"
            + (f" and --files {printable(pattern)}" if pattern else "")
        )
    if len(found) > 1:
        said = ", ".join(f"{counted(len(some), kind + ' file')}" for kind, some in found.items())
        raise SourceError(f"found {said} together; choose some with --files, such as '*.tar'")
    ((kind, files),) = found.items()
    return kind, dict(sorted(files.items()))


def splits_of(files: Iterable[str], otherwise: str) -> dict[str, list[str]]:
    """The files of each split, by the names of folders and files: ``imagenet-train-0000.tar``.

    Args:
        otherwise: the split of all of them, if no name tells any.

    Raises:
        SourceError: some have a split in their name, others have none.
    """
    found: dict[str, list[str]] = defaultdict(list)
    for path in files:
        *words, name = path.split("/")
        words += _WORDS.split(name)
        found[next(filter(None, map(split_of_folder, words)), "")].append(path)
    if (rest := found.pop("", [])) and found:
        raise SourceError(
            f"{some_of(rest)}: no split in the name, beside files of {', '.join(sorted(found))}; "
            f"expected one of {SPLIT_FOLDERS}; choose files with --files"
        )
    return {otherwise: rest} if rest else dict(found)


def _folders(raw: Path) -> Iterator[tuple[str, list[str]]]:
    """Every folder below, relative to the raw directory, with the names of its regular files."""

    def refuse(path: str, error: OSError) -> None:
        raise unreadable(path or str(raw), error) from error

    def enter(entry: os.DirEntry[str]) -> bool:
        return entry.is_dir(follow_symlinks=False) and not is_clutter_folder(entry.name)

    for folder, entries in walk(raw, enter, refuse):
        # Of a million image files none is looked at.
        named = [each for each in entries if each.name[0] != "." and not is_image_name(each.name)]
        yield folder, sorted(each.name for each in named if each.is_file())


def _kind_of(raw: Path, path: str) -> tuple[Kind | None, Codec | None]:
    try:
        head = open_container(raw, path).read_at(0, _HEAD)
    except OSError as error:
        raise unreadable(path, error) from error
    if head.startswith(b"PAR1"):
        return "Parquet", None
    if head.startswith(MAGIC):
        return "RecordIO", None
    at, word = _TAR
    if head[at:].startswith(word) or (head.startswith(_GZIP) and container_kind(path) == "gzip"):
        return "WebDataset", None
    if (codec := codec_of(path)) is not None:
        return "WebDataset", codec
    with suppress(SinkError):
        return "TFRecord" if read_length(head[: HEADER.size]) else None, None
    with suppress(zlib.error, SinkError):  # gzip or zlib, as its header says
        begin = zlib.decompressobj(32 + zlib.MAX_WBITS).decompress(head)
        if begin[at:].startswith(word):
            raise SourceError(
                f"{printable(path)} is a tar of gzip; call it .tar.gz, or choose others with "
                "--files"
            )
        if read_length(begin[: HEADER.size]):
            return "TFRecord", "gzip"
    return None, None


def _refuse_own(raw: Path) -> None:
    """Refuse a finished data set: of that more is known than of other people's shards."""
    try:
        with open_regular(raw / "manifest.json") as file:
            own = b"dataprep-manifest-" in file.read(_HEAD)
    except OSError:
        return
    if own:
        raise SourceError(
            f"{printable(str(raw))} is a finished data set; make another format of it with "
            "`dataprep convert`, or choose its images with `dataprep select`"
        )
