"""Manifests are checked against their schema, of however many shards and whatever shape."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from dataprep.errors import DatasetError
from dataprep.sealed import manifest as manifests
from dataprep.sealed.manifest import read_manifest, seal_manifest
from dataprep.system.state_files import to_json
from dataprep_schemas import manifest_schema
from tests.conftest import Made

Change = Callable[[dict[str, Any]], object]


def with_shards(tiny: Made, out: Path, count: int) -> dict[str, Any]:
    """The manifest of so many shards, which are not there."""
    found: dict[str, Any] = json.loads((tiny.out / "manifest.json").read_bytes())
    shard = found["splits"]["train"]["shards"][0]
    file = shard["files"][0]
    found["splits"]["train"]["shards"] = [
        {**shard, "files": [{**file, "path": f"train/{number}"}]} for number in range(count)
    ]
    out.mkdir()
    return found


def sealed(out: Path, manifest: dict[str, Any]) -> Path:
    body = {name: value for name, value in manifest.items() if name != "sha256"}
    (out / "manifest.json").write_bytes(to_json(seal_manifest(body)))
    return out


def test_shards_as_dataprep_writes_them_take_no_look_at_the_schema(
    tiny: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One took 70 µs, and there may be 300,000."""
    manifest = with_shards(tiny, tmp_path / "out", 1000)
    seen = []

    class Counting:
        def __init__(self, schema: object) -> None: ...

        def is_valid(self, instance: dict[str, Any]) -> bool:
            seen.append(len(instance["splits"]["train"]["shards"]))
            return True

    monkeypatch.setattr(jsonschema.validators, "extend", lambda *_, **__: Counting)
    read_manifest(sealed(tmp_path / "out", manifest))
    assert seen == [1]


@pytest.mark.parametrize(
    "change",
    [
        lambda shard: shard.update(records=-1),
        lambda shard: shard.update(records=True),
        lambda shard: shard.update(records=1.5),
        lambda shard: shard.update(records=None),
        lambda shard: shard.pop("records"),
        lambda shard: shard.update(files=[]),
        lambda shard: shard.update(files={}),
        lambda shard: shard["files"][0].update(path="../x"),
        lambda shard: shard["files"][0].update(path="/x"),
        lambda shard: shard["files"][0].update(path="a/../x"),
        lambda shard: shard["files"][0].update(path=""),
        lambda shard: shard["files"][0].update(bytes="1"),
        lambda shard: shard["files"][0].update(sha256="0" * 63),
        lambda shard: shard["files"][0].update(sha256="G" * 64),
        lambda shard: shard["files"].append({}),
        lambda shard: shard["files"].append(None),
    ],
)
def test_a_shard_that_is_none_is_named_by_its_number(
    tiny: Made, tmp_path: Path, change: Change
) -> None:
    manifest = with_shards(tiny, tmp_path / "out", 5)
    change(manifest["splits"]["train"]["shards"][3])
    with pytest.raises(DatasetError, match=r"manifest\.json: \$\.splits\.train\.shards\[3\]"):
        read_manifest(sealed(tmp_path / "out", manifest))


@pytest.mark.parametrize(
    "change",
    [
        lambda shard: shard.update(more=1),
        lambda shard: shard["files"][0].update(path="train/a b/ü"),
        lambda shard: shard["files"][0].update(path=".hidden/..x"),
        lambda shard: shard["files"][0].update(more=1),
    ],
)
def test_an_odd_shard_is_what_the_schema_says(tiny: Made, tmp_path: Path, change: Change) -> None:
    manifest = with_shards(tiny, tmp_path / "out", 5)
    change(manifest["splits"]["train"]["shards"][3])
    assert not manifests._is_plain(manifest["splits"]["train"]["shards"][3])
    jsonschema.validate(manifest, manifest_schema())
    assert len(read_manifest(sealed(tmp_path / "out", manifest))["splits"]["train"]["shards"]) == 5


def test_no_shards_at_all_are_refused(tiny: Made, tmp_path: Path) -> None:
    manifest = with_shards(tiny, tmp_path / "out", 0)
    with pytest.raises(DatasetError, match=r"\$\.splits\.train\.shards"):
        read_manifest(sealed(tmp_path / "out", manifest))
