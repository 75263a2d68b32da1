"""What is said when a data set is sealed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dataprep.system.messages import counted, sized

if TYPE_CHECKING:
    from dataprep.build.seal import Sealed


def describe_outcome(out: Path, outcome: Sealed) -> str:
    """One line."""
    text = f"sealed {out / 'manifest.json'}: {counted(outcome.records, 'record')} in "
    text += f"{counted(outcome.shards, 'shard')}, {sized(outcome.bytes)}, "
    text += f"{outcome.rejected} rejected, {outcome.noted} noted"
    if outcome.unmatched:
        text += f", {outcome.unmatched} missing or not listed"
    if outcome.spread is not None:
        text += f"; no class differs by more than {outcome.spread} between two stratified shards"
    return text
