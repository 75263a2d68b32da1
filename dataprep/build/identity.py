"""What makes it the same job: everything that shapes the bytes, kept in the directory."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any, cast

from dataprep.build.workspace import Workspace
from dataprep.errors import DataprepError, DatasetError
from dataprep.index import records as records_table
from dataprep.plugins import load_sink
from dataprep.sinks import Layout, ShardName
from dataprep.system.state_files import read_state, to_json, write_state

_SHOWN = 4  # differences spelled out in an error; the rest are counted

Identity = Mapping[str, object]

CONVERTED = "the data set to convert"
"""What a conversion calls its only unit; no path, which may be written in many ways."""


def check_identity(workspace: Workspace, identity: Identity, units: Mapping[str, str]) -> bool:
    """Accept a new directory, or one that is being made from the same input in the same way.

    Args:
        workspace: the output directory.
        identity: everything that shapes the bytes of the output, as JSON.
        units: a digest of every piece of the input, to name those that changed.

    Returns:
        Whether the directory is new, or as good as new.

    Raises:
        DatasetError: the directory was made, or is being made, in another way; names what differs.
    """
    if not workspace.job.exists():
        return True
    ours: dict[str, object] = json.loads(to_json({"identity": identity, "units": units}))
    theirs = read_job(workspace)
    if theirs == ours:
        return False
    if not any(workspace.commits.glob("[!.]*.json")):
        return True  # nothing was finished in the other way, so nothing can be mixed
    differences = _what_differs(theirs, ours)
    shown = "; ".join(differences[:_SHOWN])
    if len(differences) > _SHOWN:
        shown += f"; and {len(differences) - _SHOWN} more"
    made = "was made" if workspace.manifest.exists() else "is being made"
    raise DatasetError(
        f"{shlex.quote(str(workspace.out))} {made} with {shown}; use the same input and options, "
        "another output directory, or --overwrite to start it anew"
    )


def store_identity(workspace: Workspace, identity: Identity, units: Mapping[str, str]) -> None:
    """Make the directory this job's."""
    write_state(workspace.job, {"identity": identity, "units": units}, flush=True)


def read_job(workspace: Workspace) -> dict[str, object]:
    """The stored job.

    Raises:
        DatasetError: it is damaged.
    """
    stored: dict[str, object] | None = read_state(workspace.job)
    if stored is None:
        raise DatasetError(f"{workspace.job} is damaged; use --overwrite to start anew")
    return stored


def planned_paths(workspace: Workspace) -> list[PurePosixPath]:
    """Every file that the stored job makes, relative to the output directory, made or not.

    Empty if there is no job, if it is torn, or if its format is not installed any more.
    """
    try:
        return list(_paths(cast("Mapping[str, Any]", read_job(workspace)["identity"])))
    except (DataprepError, OSError, KeyError, TypeError, AttributeError):
        return []


def _paths(identity: Mapping[str, Any]) -> Iterator[PurePosixPath]:
    layout: Layout = identity["layout"]
    sink = load_sink(identity["sink"]["name"], identity["sink"]["config"])
    for split, count in identity["num_shards"].items():
        for number in range(count):
            yield from sink.paths(ShardName(split, number, count), layout)
        yield from sink.split_paths(split, count, layout)
    yield PurePosixPath(records_table.NAME)


def _what_differs(theirs: Mapping[str, object], ours: Mapping[str, object]) -> list[str]:
    options: list[str] = []
    inputs: list[str] = []
    for name, old, new in _leaves_that_differ(theirs.get("identity"), ours["identity"]):
        if name == "lineage":
            continue  # hashes, which say nothing; the unit says that it is another data set
        text = _said(name, old, new)
        (inputs if name.startswith("input.") else options).append(text)
    units = sorted(name for name, _, _ in _leaves_that_differ(theirs.get("units"), ours["units"]))
    if units:
        more = f" and {len(units) - 1} more" if len(units) > 1 else ""
        if units == [CONVERTED]:
            options.append(f"other input: {units[0]} changed")
        else:
            changed = f"the raw data of {units[0]}{more} changed, or a list of what is in it"
            options.append(f"other input: {changed}")
    # Options explain what else differs, and the format explains the most.
    options.sort(key=lambda text: (not text.startswith("--sink "), not text.startswith("--")))
    # Another limit, or changed raw data, is why the input's counts and hash are others.
    return options or inputs


def _leaves_that_differ(
    before: object, now: object, name: str = ""
) -> Iterator[tuple[str, object, object]]:
    if isinstance(before, dict) and isinstance(now, dict):
        for key in sorted(before.keys() | now.keys()):
            yield from _leaves_that_differ(
                before.get(key), now.get(key), f"{name}.{key}" if name else key
            )
    elif before != now:
        yield name, before, now


def _said(name: str, old: object, new: object) -> str:
    """A difference in the words of the command line: ``--quality 95, now 80``."""
    if name == "classes_sha256":
        return "another list of classes"
    first, _, rest = name.partition(".")
    if first in ("image", "dataset_config"):
        return f"--{rest} {_show(old)}, now {_show(new)}"
    if name == "sink.name":
        return f"--sink {_show(old)}, now {_show(new)}"
    if name.startswith("sink.config."):
        return f"--sink_option {rest.removeprefix('config.')}={_show(old)}, now {_show(new)}"
    if first == "num_shards":
        return f"--num_shards {rest}={_show(old)}, now {_show(new)}"
    if first in ("seed", "limit", "layout", "shuffle"):
        split = f" for {rest}" if rest else ""
        return f"--{first} {_show(old)}{split}, now {_show(new)}"
    return f"{name} {_show(old)}, now {_show(new)}"


def _show(value: object) -> str:
    if value is None:
        return "none"
    return value if isinstance(value, str) else json.dumps(value)
