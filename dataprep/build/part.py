"""A part of a data set: what a node has of its shards, as ``part.json`` beside the manifest says.

``dataprep stage`` copies the manifest as it is, since its hash must stay; with ``--share`` or
``--split`` only some of the shards that it names come along.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from dataprep.errors import DatasetError
from dataprep.system.canonical import to_json
from dataprep.system.messages import some_of

FORMAT = "dataprep-part-1"
NAME = "part.json"

_ANY_FORMAT = "dataprep-part-"  # also of versions to come


@dataclass(frozen=True, slots=True)
class Part:
    """Which shards of a data set are in a directory.

    Attributes:
        manifest_sha256: the hash that the manifest carries of itself.
        splits: numbers of the shards that are here, ascending, by split; a split that is not named
            is not here.
        split_files: paths of the files that are here of those made once for their split.
        node: 0-based index of the node that got them.
        nodes: how many nodes the shards were dealt over; 1 if only splits were chosen.
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
    said = {
        "format": FORMAT,
        "manifest_sha256": part.manifest_sha256,
        "splits": {name: list(numbers) for name, numbers in part.splits.items()},
        "split_files": sorted(part.split_files),
        "node": part.node,
        "nodes": part.nodes,
        "replicas": part.replicas,
    }
    return to_json(said).decode()


def read_part(out: Path, manifest: Mapping[str, Any]) -> Part | None:
    """What ``part.json`` says; None if there is none of ours, so everything should be here.

    The name is common: what does not state our format is somebody else's, and says nothing.

    Args:
        out: the directory that holds the manifest.
        manifest: what `dataprep.build.manifest.read_manifest` gives.

    Raises:
        DatasetError: it cannot be understood, or is a part of another data set.
    """
    said = _said(out / NAME)
    return None if said is None else _checked(out / NAME, said, manifest)


def has_part(out: Path) -> bool:
    """Whether the ``part.json`` of a directory is one that staging wrote; else it is not ours.

    Raises:
        DatasetError: it cannot be read.
    """
    return _said(out / NAME) is not None


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
    """Which shards should be here, by split: the numbers of those that `present` leaves.

    Raises:
        DatasetError: ``part.json`` cannot be understood, or is of another data set.
    """
    part = read_part(out, manifest)
    return {
        name: range(len(split["shards"])) if part is None else part.splits[name]
        for name, split in manifest["splits"].items()
        if part is None or name in part.splits
    }


def refuse_part(out: Path, manifest: Mapping[str, Any], doing: str) -> None:
    """Raise if ``out`` holds only a part of its data set.

    Args:
        out: the directory that holds the manifest.
        manifest: what `dataprep.build.manifest.read_manifest` gives.
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
    """What the file says if it is one of ours."""
    try:
        said = json.loads(path.read_bytes())
    except (FileNotFoundError, IsADirectoryError, ValueError, RecursionError):
        return None
    except OSError as error:
        raise DatasetError(
            f"{path} cannot be read: {error.strerror or error}; stage the data set again"
        ) from error
    ours = isinstance(said, dict) and str(said.get("format")).startswith(_ANY_FORMAT)
    return said if ours else None


def _checked(path: Path, said: Mapping[str, Any], manifest: Mapping[str, Any]) -> Part:
    if said["format"] != FORMAT:
        raise _broken(path, f"its format is not {FORMAT}")
    if said.get("manifest_sha256") != manifest["sha256"]:
        raise _broken(path, "it is of another data set than the manifest beside it")
    wrong = next(_contradictions(said, manifest["splits"]), None)
    if wrong is not None:
        raise _broken(path, wrong)
    return Part(
        manifest_sha256=said["manifest_sha256"],
        splits={name: tuple(numbers) for name, numbers in said["splits"].items()},
        split_files=tuple(said["split_files"]),
        node=said["node"],
        nodes=said["nodes"],
        replicas=said["replicas"],
    )


def _contradictions(said: Mapping[str, Any], known: Mapping[str, Any]) -> Iterator[str]:
    """What cannot be true of a part; only the first is sure, the next may come of it."""
    splits, files = said.get("splits"), said.get("split_files")
    if not isinstance(splits, dict) or not splits:
        yield "it names no splits"
        return
    for name, numbers in splits.items():
        if name not in known:
            yield f"the data set has no split {name!r}"
        elif not _are_shards(numbers, len(known[name]["shards"])):
            yield f"its shards of {name} are not ascending numbers of the manifest's"
    names = {file["path"] for name in splits if name in known for file in known[name]["files"]}
    if not isinstance(files, list) or not all(
        isinstance(file, str) and file in names for file in files
    ):
        yield "its split_files are not the manifest's"
    numbers = [said.get(name) for name in ("node", "nodes", "replicas")]
    if not all(type(number) is int for number in numbers):
        yield "its node, nodes and replicas are not numbers"
    elif not (0 <= said["node"] < said["nodes"] and 1 <= said["replicas"] <= said["nodes"]):
        yield "its node, nodes and replicas contradict each other"


def _are_shards(numbers: object, count: int) -> bool:
    """Whether these are numbers of shards, ascending, at least one."""
    if not isinstance(numbers, list) or not numbers:
        return False
    if not all(type(number) is int for number in numbers):
        return False
    return all(before < after for before, after in pairwise([-1, *numbers, count]))


def _broken(path: Path, what: str) -> DatasetError:
    return DatasetError(f"{path} cannot be trusted: {what}; stage the data set again")
