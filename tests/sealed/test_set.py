"""Manifests are parsed into their types, of however many shards and whatever shape."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dataprep_schemas
from dataprep.errors import DatasetError
from dataprep.jobs.running.status import read_status
from dataprep.sealed.set import SealedSet
from dataprep_schemas import manifest_schema
from tests.conftest import Made
from tests.forging import forge

Manifest = dict[str, Any]


def train(manifest: Manifest) -> dict[str, Any]:
    found: dict[str, Any] = manifest["splits"]["train"]
    return found


def shard(manifest: Manifest) -> dict[str, Any]:
    found: dict[str, Any] = train(manifest)["shards"][3]
    return found


def file(manifest: Manifest) -> dict[str, Any]:
    found: dict[str, Any] = shard(manifest)["files"][0]
    return found


def renamed(manifest: Manifest, split: str) -> None:
    for name in ("splits", "input", "num_shards", "shuffle"):
        manifest[name] = {split: manifest[name]["train"]}


AT_SHARD = r"\$\.splits\[\.\.\.\]\.shards\[3\]"
NO_COUNTS = (-1, True, 1.5, 2**53, None)
NO_PATHS = (
    *("../x", "/x", "a/../x", "a//x", "train/-rf", "a\n", "a" * 5000, ""),
    *(".dataprep/job.json", "manifest.json", "part.json", "records.parquet"),
)


@pytest.mark.parametrize(
    ("change", "where"),
    [
        *(
            (lambda it, n=n: shard(it).update(records=n), AT_SHARD + r"\.records")
            for n in NO_COUNTS
        ),
        (lambda it: shard(it).pop("records"), AT_SHARD),
        (lambda it: shard(it).update(more=1), AT_SHARD),
        (lambda it: shard(it).update(files=[]), AT_SHARD + r"\.files"),
        (lambda it: shard(it).update(files={}), AT_SHARD + r"\.files"),
        *(
            (lambda it, path=path: file(it).update(path=path), AT_SHARD + r"\.files\[0\]\.path")
            for path in NO_PATHS
        ),
        (lambda it: file(it).update(bytes="1"), AT_SHARD + r"\.files\[0\]\.bytes"),
        (lambda it: file(it).update(sha256="0" * 63), AT_SHARD + r"\.files\[0\]\.sha256"),
        (lambda it: file(it).update(sha256="G" * 64), AT_SHARD + r"\.files\[0\]\.sha256"),
        (lambda it: shard(it)["files"].append({}), AT_SHARD + r"\.files\[\d\]"),
        (lambda it: train(it).update(shards=[]), r"\$\.splits\[\.\.\.\]\.shards"),
        (lambda it: train(it).update(records=1), "records, images or bytes are not those of"),
        (lambda it: train(it).update(bytes=1), "records, images or bytes are not those of"),
        (lambda it: it["totals"].update(records=1), "totals: records are not those of the splits"),
        (lambda it: it["num_shards"].update(train=5), "num_shards: not the number of shards"),
        (lambda it: it["num_shards"].update(train=2**40), "num_shards: more than 1,048,576"),
        (lambda it: it["input"].pop("train"), "num_shards: a split that `input` or `shuffle`"),
        (
            lambda it: file(it).update(path=train(it)["shards"][0]["files"][0]["path"]),
            "named twice",
        ),
        (lambda it: it.update(classes=[]), "class_records has a class that is not in the list"),
        (lambda it: it.update(classes=[["a"]]), r"\$\.classes\[0\]"),
        (lambda it: it.update(seed=-1), r"\$\.seed"),
        (lambda it: it.update(seed=10**30), r"\$\.seed"),
        (lambda it: it["sink"].update(name="x; rm -rf /"), r"\$\.sink\.name"),
        (lambda it: it["sink"].update(config={"a": [1]}), r"\$\.sink\.config"),
        (
            lambda it: it["examples"].update(fields=[{"name": 'x"; COPY', "kind": "int"}]),
            r"fields\[0\]",
        ),
        (lambda it: renamed(it, "../x"), r"at `key` in `\$\."),
        (lambda it: renamed(it, "a\x1b[2J"), r"at `key` in `\$\."),
        (lambda it: it.update(format="dataprep-manifest-1"), "its format is 'dataprep-manifest-1'"),
    ],
)
def test_what_is_wrong_is_named_by_its_place(
    tiny: Made, tmp_path: Path, change: Callable[[Manifest], object], where: str
) -> None:
    out = tiny.copy(tmp_path / "out")
    forge(out / "manifest.json", change)
    with pytest.raises(DatasetError, match=where) as caught:
        SealedSet.read(out)
    assert str(caught.value).startswith(f"{out / 'manifest.json'}: ")
    assert str(caught.value).endswith("again; if that does not help, with --overwrite")
    assert str(caught.value).isprintable()


def test_another_program_s_is_named_as_such(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"name": "my web app", "format": "1"}')
    with pytest.raises(DatasetError, match="is not dataprep's; give a directory that dataprep"):
        SealedSet.read(tmp_path)


def test_a_hash_that_is_not_the_file_s_is_refused(tiny: Made, tmp_path: Path) -> None:
    out = tiny.copy(tmp_path / "out")
    path = out / "manifest.json"
    path.write_bytes(path.read_bytes().replace(b'"seed": 0', b'"seed": 1'))
    with pytest.raises(DatasetError, match="was changed after it was written: its hash is another"):
        SealedSet.read(out)


def test_a_path_at_which_no_set_can_be_is_named_as_such(tiny: Made, tmp_path: Path) -> None:
    found = {tmp_path / "gone": "does not exist", tiny.out / "manifest.json": "is a file"}
    for call in (SealedSet.read, read_status):
        for path, what in found.items():
            with pytest.raises(DatasetError, match=f"^{path} {what}; name the directory of a data"):
                call(path)


def test_values_are_frozen(tiny: Made) -> None:
    manifest = SealedSet.read(tiny.out).manifest
    for value in (manifest, manifest.totals, manifest.shards()[0], manifest.files()[0]):
        with pytest.raises(AttributeError, match="immutable"):
            value.records = 1  # type: ignore[union-attr,misc]


def test_the_published_schema_is_that_of_the_types(tiny: Made) -> None:
    """Made anew by ``python -m tests.regenerate_docs``."""
    path = Path(str(dataprep_schemas.__file__)).with_name("manifest.schema.json")
    assert json.loads(path.read_text()) == json.loads(json.dumps(manifest_schema()))
