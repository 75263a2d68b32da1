"""What a finished data set says about itself: ``manifest.json``, written last.

It holds no time, host name or path of the machine that made it, so the same input and options
give the same manifest, byte for byte. Its schema is ``dataprep_schemas/manifest.schema.json``.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dataprep.errors import DatasetError
from dataprep.system.canonical import to_json

if TYPE_CHECKING:
    from dataprep.sinks import DatasetInfo, Sink

FORMAT = "dataprep-manifest-1"
NAME = "manifest.json"

# Of dataprep.staging.target, which is not needed to read a manifest; a test compares them.
_STAGING = ".dataprep-stage"
_WHOLE = f"{_STAGING}/complete.json"


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
        data = path.read_bytes()
    except FileNotFoundError:
        if is_staged_half(out):
            raise DatasetError(explain_staged_half(out)) from None
        raise DatasetError(
            f"{out}: no {NAME} here, so no sealed data set; "
            "`dataprep status` tells how far a run has come"
        ) from None
    except OSError as error:
        raise DatasetError(f"{path} cannot be read: {error}; make the data set again") from error
    return _checked(data, path)


def is_staged_half(out: Path) -> bool:
    """Whether staging has begun to copy something here, and has not said that all of it is here."""
    # Not Path.is_dir, which raises where one may not look.
    return os.path.isdir(out / _STAGING) and not os.path.exists(out / _WHOLE)  # noqa: PTH110, PTH112


def explain_staged_half(out: Path) -> str:
    """What is to be said of such a directory."""
    return (
        f"{out}: a copy that is not whole; `dataprep stage --status --to {shlex.quote(str(out))}` "
        "tells more"
    )


@lru_cache(maxsize=4)
def _checked(data: bytes, path: Path) -> dict[str, Any]:
    # Kept, because a conversion asks once a shard, and checking takes longer than reading.
    try:
        manifest: dict[str, Any] = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DatasetError(f"{path} cannot be read: {error}; make the data set again") from error
    _check_schema(manifest, path)
    body = {key: value for key, value in manifest.items() if key != "sha256"}
    if _digest(body) != manifest["sha256"] or to_json(manifest) != data:
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
    """What readers of a data set's shards are told; the inverse of `describe_info`.

    Early manifests say nothing of attributes, of which there were none, and name the file of boxes.
    """
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
    # Imported here because only those who read a manifest need it.
    import jsonschema

    from dataprep_schemas import manifest_schema

    try:
        jsonschema.validate(manifest, manifest_schema())
    except jsonschema.ValidationError as error:
        raise DatasetError(f"{path}: {error.json_path}: {error.message}") from error
