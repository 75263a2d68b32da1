"""What finished data sets say of themselves, and a bit of theirs that is another one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dataprep
from dataprep.formats import Example
from tests.conftest import hashes


def manifest_of(out: Path) -> dict[str, Any]:
    """As anybody's program reads it."""
    found: dict[str, Any] = json.loads((out / "manifest.json").read_bytes())
    return found


def examples_of(out: Path) -> Iterator[Example]:
    """Those of all splits."""
    for split in manifest_of(out)["splits"]:
        yield from dataprep.open(out, split)


def keys_of(out: Path, split: str = "train") -> list[str]:
    """In the order of the shards."""
    return [example.key for example in dataprep.open(out, split)]


def labels_of(out: Path) -> dict[str, tuple[int, ...]]:
    """The labels of each image."""
    return {example.key: example.labels for example in examples_of(out)}


def splits_of(out: Path) -> dict[str, str]:
    """The split of each image."""
    return {key: split for split in manifest_of(out)["splits"] for key in keys_of(out, split)}


def shards_of(out: Path) -> dict[str, str]:
    """The hashes of all files but those that tell where the images came from."""
    told = ("manifest.json", "records.parquet")
    return {name: digest for name, digest in hashes(out).items() if name not in told}


def flip(path: Path, at: int | None = None) -> None:
    """Turn a bit of a file: of its middle, or of the byte that is named."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2 if at is None else at] ^= 1
    path.write_bytes(content)
