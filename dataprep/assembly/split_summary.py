"""What merging the index found out, kept, so that a resumed job need not merge it again.

Merging fourteen million rows takes minutes; what is learnt from it are a few numbers a split, and
that no group is in two splits.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from dataprep.assembly.request import Request
from dataprep.assembly.split_index import SplitIndex
from dataprep.assembly.survey import Survey
from dataprep.assembly.workspace import Workspace
from dataprep.canonical import to_json
from dataprep.durable_files import write_durably

_RULES = 1  # raise it whenever the same index would be merged to something else


@dataclass(frozen=True, slots=True)
class SplitSummary:
    """The rows that are prepared of a split.

    Attributes:
        images: how many there are.
        source_bytes: their size in the raw data.
        input_sha256: over every `Row.facts`.
    """

    images: int
    source_bytes: int
    input_sha256: str


def summarize(index: SplitIndex) -> SplitSummary:
    """What is kept of a merged index."""
    return SplitSummary(len(index), int(index.sizes.sum()), index.input_sha256)


def summary_key(request: Request, found: Survey) -> str:
    """Identifies everything that the summaries depend on, and the check of groups."""
    made_of = [_RULES, found.digests, found.names, found.splits, found.others, request.limit]
    return hashlib.sha256(to_json([*made_of, request.seed])).hexdigest()


def read_summaries(workspace: Workspace, key: str) -> Mapping[str, SplitSummary] | None:
    """Every split's, by its name; None if they are not there or of another index."""
    try:
        stored = json.loads(_path(workspace).read_bytes())
        if stored["key"] != key:
            return None
        return {name: SplitSummary(**fields) for name, fields in stored["splits"].items()}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def keep_summaries(workspace: Workspace, key: str, splits: Mapping[str, SplitSummary]) -> None:
    """For `read_summaries`; only once no group is known to be in two splits."""
    fields = {name: asdict(summary) for name, summary in splits.items()}
    write_durably(_path(workspace), to_json({"key": key, "splits": fields}))


def _path(workspace: Workspace) -> Path:
    return workspace.deck / "summary.json"
