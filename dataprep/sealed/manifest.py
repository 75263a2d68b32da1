"""What a finished data set says about itself: ``manifest.json``, written last.

It holds no time, host name or path of the machine that made it, so the same input and options
give the same manifest, byte for byte. Its schema is ``dataprep_schemas/manifest.schema.json``.

``dataprep stage`` copies it as it is, since its hash must stay. With ``--share`` or ``--split``
only some of the shards that it names come along: ``part.json`` beside it says which.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import accumulate, chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dataprep.errors import DatasetError, SinkError, UsageError
from dataprep.system.messages import refusal, some_of, unreadable
from dataprep.system.regular_files import read_regular
from dataprep.system.state_files import to_json

if TYPE_CHECKING:
    from dataprep.sinks import DatasetInfo, ShardReader, Sink
    from dataprep.sinks.example import Example


FORMAT = "dataprep-manifest-1"
NAME = "manifest.json"
PART_FORMAT = "dataprep-part-1"
PART = "part.json"

# In JSON that is ASCII: NUL, or one of two surrogates without the other. Nothing that a file
# system or another program takes for a name.
_NO_TEXT = re.compile(
    rb"\\u(0000|d[89ab]..(?!\\ud[c-f])|(?<!\\ud[89ab]..\\u)d[c-f])", re.IGNORECASE
)
_PLAIN_PATH = re.compile(r"\w[\w.-]*(/\w[\w.-]*)*", re.ASCII)
_SHA256 = re.compile(r"[0-9a-f]{64}")
_ANY_PART_FORMAT = "dataprep-part-"  # also of versions to come


def seal_manifest(body: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest with the format's name, and the hash that it carries of itself."""
    named = {"format": FORMAT, **body}
    return {**named, "sha256": _digest(named)}


def read_manifest(out: Path) -> dict[str, Any]:
    """Read and check a manifest: JSON, schema, and its own hash.

    Returns:
        The manifest; not to be changed, since whoever reads the same one again gets the same.

    Raises:
        DatasetError: it is absent (nothing is sealed here, or staged half) or not intact.
    """
    path = out / NAME
    try:
        data = read_regular(path)
    except FileNotFoundError:
        raise DatasetError(
            f"{out}: no {NAME} here, so no sealed data set and no whole copy; "
            "`dataprep status` tells how far a run has come, `dataprep stage --status` a copy"
        ) from None
    except OSError as error:
        raise DatasetError(f"{path} cannot be read: {refusal(error)}") from error
    return checked_manifest(data, path)


@lru_cache(maxsize=4)
def checked_manifest(data: bytes, path: Path) -> dict[str, Any]:
    """A manifest from its bytes, as `read_manifest`.

    Args:
        path: where they are; for messages.

    Raises:
        DatasetError: it is not intact.
    """
    if _NO_TEXT.search(data):
        raise DatasetError(f"{path} has a text with half a character or a NUL; make it again")
    # Kept, because a conversion asks once a shard, and checking takes longer than reading.
    try:
        manifest: dict[str, Any] = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DatasetError(f"{path} cannot be read: {error}; make the data set again") from error
    _check_schema(manifest, path)
    if not manifest["splits"].keys() <= manifest["input"].keys():
        raise DatasetError(f"{path}: $.input: what the splits were made from is missing")
    # Of a line of its own, as no text within JSON is; another key comes behind it.
    body = data.replace(b'\n "sha256": "%b",' % manifest["sha256"].encode(), b"", 1)
    if hashlib.sha256(body).hexdigest() != manifest["sha256"] or to_json(manifest) != data:
        raise DatasetError(f"{path} was changed after it was sealed: its hash does not match")
    return manifest


def describe_info(info: DatasetInfo) -> dict[str, Any]:
    """What is true of every example, as the manifest's ``examples``; classes are apart."""
    return {
        "multilabel": info.multilabel,
        "colorspace": info.colorspace,
        "size": None if info.size is None else list(info.size),
        "attributes": [list(attribute) for attribute in info.attributes],
        "boxes": info.boxes,
    }


def dataset_info(manifest: Mapping[str, Any]) -> DatasetInfo:
    """What readers of a data set's shards are told; the inverse of `describe_info`."""
    from dataprep.sinks import DatasetInfo  # staging reads manifests, and needs no format

    examples = manifest["examples"]
    size = examples["size"]
    return DatasetInfo(
        classes=tuple((identifier, name) for identifier, name in manifest["classes"]),
        multilabel=examples["multilabel"],
        colorspace=examples["colorspace"],
        size=None if size is None else (size[0], size[1]),
        attributes=tuple((name, kind) for name, kind in examples.get("attributes", ())),
        boxes=examples.get("boxes", manifest.get("bbox_sha256") is not None),
    )


def manifest_sink(manifest: Mapping[str, Any]) -> Sink:
    """The format of a data set, with the options that it was written with.

    Raises:
        UsageError: it is not installed here.
    """
    from dataprep.plugins import load_sink

    return load_sink(manifest["sink"]["name"], manifest["sink"]["config"])


def _digest(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(to_json(body)).hexdigest()


def _check_schema(manifest: object, path: Path) -> None:
    if not isinstance(manifest, dict) or "format" not in manifest:
        raise DatasetError(f"{path} is not dataprep's; give a directory that dataprep made")
    # Imported here because only those who read a manifest need it.
    from jsonschema import Draft202012Validator, validators
    from jsonschema.exceptions import best_match

    from dataprep_schemas import manifest_schema

    whole = Draft202012Validator.TYPE_CHECKER.redefine("integer", lambda _, value: _is_count(value))
    validator = validators.extend(  # type: ignore[no-untyped-call]
        Draft202012Validator, type_checker=whole
    )(manifest_schema())
    if validator.is_valid(_without_plain_shards(manifest)):
        return
    error = best_match(validator.iter_errors(manifest))  # for a message that counts all shards
    if error is not None:
        raise DatasetError(f"{path}: {error.json_path}: {error.message}") from error


def _is_count(value: object) -> bool:
    """A whole number of which many can be added; JSON Schema takes 1.0 and 10**99 for one."""
    return type(value) is int and value.bit_length() < 54


def _without_plain_shards(manifest: Any) -> Any:
    """All that needs a look at the schema: for hundreds of thousands of shards that takes long."""
    splits = manifest.get("splits") if isinstance(manifest, dict) else None
    if not isinstance(splits, dict):
        return manifest
    return {**manifest, "splits": {name: _with_odd_shards(split) for name, split in splits.items()}}


def _with_odd_shards(split: object) -> object:
    if not isinstance(split, dict) or not isinstance(split.get("shards"), list):
        return split
    shards = split["shards"]
    return {**split, "shards": [shard for shard in shards if not _is_plain(shard)] or shards[:1]}


def _is_plain(shard: object) -> bool:
    """Whether it is what dataprep writes; stricter than the schema."""
    match shard:
        case {"records": int(records), "files": [_, *_] as files, **more} if not more:
            return _is_count(records) and records >= 0 and all(map(_is_plain_file, files))
    return False


def _is_plain_file(file: object) -> bool:
    match file:
        case {"path": str(path), "bytes": int(size), "sha256": str(sha256), **more} if not more:
            plain = _PLAIN_PATH.fullmatch(path) and _SHA256.fullmatch(sha256)
            return plain is not None and _is_count(size) and size >= 0
    return False


@dataclass(frozen=True, slots=True)
class Part:
    """Which shards of a data set are in a directory.

    Attributes:
        manifest_sha256: the hash that the manifest carries of itself.
        splits: numbers of the shards that are here, ascending, by split; a split that is not named
            is not here.
        split_files: paths of the files that are here of those made once for their split.
        node: 0-based index of the node that got them.
        nodes: how many nodes the shards were assigned to; 1 if only splits were chosen.
        replicas: how many nodes got each shard.
    """

    manifest_sha256: str
    splits: Mapping[str, tuple[int, ...]]
    split_files: tuple[str, ...] = ()
    node: int = 0
    nodes: int = 1
    replicas: int = 1

    def __str__(self) -> str:
        """For messages: ``part 2 of 4``, ``only validation``."""
        if self.nodes > 1:
            return f"part {self.node + 1} of {self.nodes}"
        return f"only {some_of(self.splits)}"


def part_json(part: Part) -> str:
    """The text of ``part.json``: equal parts give equal texts."""
    said = {"format": PART_FORMAT, **asdict(part), "split_files": sorted(part.split_files)}
    return to_json(said).decode()


def read_part(out: Path, manifest: Mapping[str, Any]) -> Part | None:
    """What ``part.json`` says; None if there is none of ours, so everything should be here.

    Raises:
        DatasetError: it cannot be understood, or is a part of another data set.
    """
    path = out / PART
    said = _said(path)
    if said is None:
        return None
    try:
        fields = {name: value for name, value in said.items() if name != "format"}
        fields["splits"] = {name: tuple(numbers) for name, numbers in said["splits"].items()}
        fields["split_files"] = tuple(said["split_files"])
        part = Part(**fields)
        for name, numbers in part.splits.items():
            # Before anything is made of them: the same number a million times takes minutes.
            ascending = all(before < number for before, number in pairwise((-1, *numbers)))
            _restricted(manifest["splits"][name], numbers if ascending else (), ())
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise _broken(path, "what it names is not the manifest's") from error
    counts = (part.node, part.nodes, part.replicas, *chain(*part.splits.values()))
    if not all(type(count) is int and count >= 0 for count in counts):
        raise _broken(path, "not all of its numbers are numbers")
    if said["format"] != PART_FORMAT or part.manifest_sha256 != manifest["sha256"]:
        raise _broken(path, "it is of another data set, or another version of dataprep's")
    return part


def has_part(out: Path) -> bool:
    """Whether the ``part.json`` of a directory is one that staging wrote; else it is not ours.

    Raises:
        DatasetError: it cannot be read.
    """
    return _said(out / PART) is not None


def present(out: Path, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest, restricted to the splits, shards and files of them that should be here.

    ``shards``, ``files``, ``records``, ``bytes`` and ``records_per_shard`` are those of what is
    here. Everything else that is said of a split, such as ``class_records`` and ``statistics``,
    cannot be known of a part, and stays what it is of the whole split.

    Raises:
        DatasetError: ``part.json`` cannot be understood, or is of another data set.
    """
    part = read_part(out, manifest)
    if part is None:
        return dict(manifest)
    splits = {
        name: _restricted(split, part.splits[name], part.split_files)
        for name, split in manifest["splits"].items()
        if name in part.splits
    }
    return {**manifest, "splits": splits}


def shard_numbers(out: Path, manifest: Mapping[str, Any]) -> dict[str, Sequence[int]]:
    """Which shards should be here, by split: the numbers of those that `present` leaves."""
    part = read_part(out, manifest)
    if part is not None:
        return {name: part.splits[name] for name in manifest["splits"] if name in part.splits}
    return {name: range(len(split["shards"])) for name, split in manifest["splits"].items()}


def refuse_part(out: Path, manifest: Mapping[str, Any], doing: str) -> None:
    """Raise if ``out`` holds only a part of its data set.

    Args:
        doing: what needs all of it, for the message: ``converted``.

    Raises:
        DatasetError: it does; or ``part.json`` cannot be understood.
    """
    part = read_part(out, manifest)
    if part is not None:
        raise DatasetError(
            f"{out} holds a part of its data set ({part}) and only a whole one can be {doing}; "
            "use the directory that it was staged from"
        )


def _restricted(
    split: Mapping[str, Any], numbers: tuple[int, ...], files: tuple[str, ...]
) -> dict[str, Any]:
    shards = [split["shards"][number] for number in numbers]
    counts = [shard["records"] for shard in shards]
    return {
        **split,
        "shards": shards,
        "files": [file for file in split["files"] if file["path"] in files],
        "records": sum(counts),
        "bytes": sum(file["bytes"] for shard in shards for file in shard["files"]),
        "records_per_shard": [min(counts), max(counts)],
    }


def _said(path: Path) -> Mapping[str, Any] | None:
    """What the file says; None if it states another format than ours: its name is common."""
    try:
        said = json.loads(read_regular(path))
    except (FileNotFoundError, IsADirectoryError, ValueError, RecursionError):
        return None
    except OSError as error:
        raise _broken(path, f"{error.strerror}") from error
    ours = isinstance(said, dict) and str(said.get("format")).startswith(_ANY_PART_FORMAT)
    return said if ours else None


def _broken(path: Path, what: str) -> DatasetError:
    return DatasetError(f"{path} cannot be trusted: {what}; stage the data set again")


def meant_split(name: str, known: Collection[str]) -> str:
    """The split that a name means: ``validation``, say, for ``val``, where no split is ``val``."""
    if name in known:
        return name
    from dataprep.datasets.splits import split_of_folder  # late: it loads the data sets

    return split_of_folder(str(name)) or name


class FinishedSplit:
    """The examples of one split, in the order they were written; opens nothing but to read.

    Of a node's part of a data set, those of the shards that are there, numbered from 0.

    Attributes:
        out: the directory that holds ``manifest.json``.
        split: which split.
        manifest: restricted to what is there.
        info: what is true of every example.
        sink: the format.
        ends: of each shard, the number behind its last example.
        files: of each shard, where they are, relative to `out`.

    Raises:
        DatasetError: there is no intact manifest, or it is not clear what is there of it.
        UsageError: no such split, or a format that is not installed.
    """

    def __init__(self, out: Path, split: str, whole: Mapping[str, Any] | None = None) -> None:
        manifest = present(out, read_manifest(out) if whole is None else whole)
        split = meant_split(split, manifest["splits"])
        if split not in manifest["splits"]:
            known = ", ".join(manifest["splits"])
            raise UsageError(f"{out} has no split {split!r}; it has: {known}")
        self.out = out.absolute()
        self.split = split
        self.manifest: dict[str, Any] = manifest
        self.info: DatasetInfo = dataset_info(manifest)
        self.sink: Sink = manifest_sink(manifest)
        shards = manifest["splits"][split]["shards"]
        self.files = [[file["path"] for file in shard["files"]] for shard in shards]
        self.ends: list[int] = list(accumulate(shard["records"] for shard in shards))

    def __len__(self) -> int:
        """How many examples there are."""
        return self.ends[-1] if self.ends else 0

    def start(self, shard: int) -> int:
        """The number of a shard's first example."""
        return self.ends[shard - 1] if shard else 0

    def reader(self, shard: int) -> ShardReader:
        """Of one shard, which is counted from 0; to be closed.

        Raises:
            SinkError: it is missing, damaged, or cannot be read.
        """
        paths = [self.out / path for path in self.files[shard]]
        try:
            return self.sink.reader(paths, self.info)
        except OSError as error:
            raise SinkError(str(unreadable(str(error.filename or paths[0]), error))) from error

    def between(self, start: int, stop: int) -> Iterator[Example]:
        """Examples ``start`` to ``stop - 1`` in order; whole shards are read from end to end.

        Raises:
            SinkError: one is damaged, as far as the format lets one check that.
        """
        for shard, end in enumerate(self.ends):
            begin = self.start(shard)
            first, last = max(start, begin), min(stop, end)
            if first >= last:
                continue
            # A reader of its own: whoever iterates may read by number in between.
            with self.reader(shard) as reader:
                if (first, last) == (begin, end):
                    yield from reader
                else:
                    yield from (reader[number - begin] for number in range(first, last))
