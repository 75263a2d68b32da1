"""What the calls return; ``--json`` prints the same, field by field."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

from dataprep.system.messages import counted, sized


def as_json(result: object) -> str:
    """A result as JSON: an object with its fields, in their order; only printable characters."""
    lines = json.dumps(_plain(result), indent=2, ensure_ascii=False).split("\n")
    return "\n".join(line if line.isprintable() else _escaped(line) for line in lines)


def _escaped(line: str) -> str:
    return "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in line)


def _plain(value: object) -> object:
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(inner) for inner in value]
    return str(value) if isinstance(value, Path) else value


@dataclass(frozen=True, slots=True)
class SealedSet:
    """A finished data set, as ``prepare``, ``convert`` and ``compact`` return it.

    Attributes:
        out: the directory of ``manifest.json``.
        records: how many records all splits have.
        shards: how many shards.
        bytes: of all shards.
        rejected: images that could not be used, and are named in ``records.parquet``.
        noted: images that were repaired, or about which there is a warning.
        unmatched: images that are listed but missing, or there but not listed.
        spread: the largest difference of any class's count between two shards of a stratified
            split with several shards; None if there is none.
    """

    out: Path
    records: int
    shards: int
    bytes: int
    rejected: int
    noted: int
    unmatched: int
    spread: int | None

    @classmethod
    def of(cls, out: Path, manifest: Mapping[str, Any]) -> SealedSet:
        """What its manifest says."""
        splits, totals = manifest["splits"], manifest["totals"]
        shards = [shard for split in splits.values() for shard in split["shards"]]
        files = [file for part in (*shards, *splits.values()) for file in part["files"]]
        spreads = [
            split["class_spread"]
            for name, split in splits.items()
            if len(split["shards"]) > 1 and manifest["shuffle"][name] == "stratified"
        ]
        return cls(
            out=out,
            records=totals["records"],
            shards=len(shards),
            bytes=sum(file["bytes"] for file in files),
            rejected=totals["rejected"],
            noted=totals["repaired"] + totals["warned"],
            unmatched=totals["missing"] + totals["unlisted"],
            spread=max(spreads, default=None) if manifest["examples"]["multilabel"] else None,
        )

    def __str__(self) -> str:
        """One line."""
        text = f"sealed {self.out / 'manifest.json'}: {counted(self.records, 'record')} in "
        text += f"{counted(self.shards, 'shard')}, {sized(self.bytes)}, "
        text += f"{self.rejected} rejected, {self.noted} noted"
        if self.unmatched:
            text += f", {self.unmatched} missing or not listed"
        if self.spread is not None:
            text += f"; no class differs by more than {self.spread} between two stratified shards"
        return text
