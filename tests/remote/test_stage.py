"""Staging from a bucket: all that staging promises of a directory, without a LIST."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import dataprep
from dataprep.errors import DatasetError, StagingError
from dataprep.sealed.set import SealedSet
from tests.conftest import Cli
from tests.remote.test_open import address as address
from tests.remote.test_open import out as out


def files_of(out: Path) -> dict[str, bytes]:
    names = [file.path for file in SealedSet.read(out).manifest.files()]
    return {name: (out / name).read_bytes() for name in (*names, "records.parquet")}


def test_the_copy_is_the_set_and_is_used_again(
    out: Path, address: str, tmp_path: Path, cli: Cli
) -> None:
    first = cli("stage", address, "--to", str(tmp_path / "copy"))
    assert (first.code, files_of(tmp_path / "copy")) == (0, files_of(out))
    assert dataprep.verify(tmp_path / "copy", level="records").problems == ()
    again = cli("stage", address, "--to", str(tmp_path / "copy"))
    assert again.code == 0
    assert "nothing to copy" in again.out
    status = cli("stage", address, "--to", str(tmp_path / "copy"), "--status", "--json")
    assert json.loads(status.out)["source"] == address


def test_a_split_or_a_share_is_a_part(
    out: Path, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("LOCAL_RANK", "0")
    dataprep.stage(address, to=tmp_path / "copy", share="node", rendezvous="none")
    part = SealedSet.read(tmp_path / "copy").part
    assert part is not None
    assert 0 < len(dataprep.open(tmp_path / "copy", "train")) < len(dataprep.open(out, "train"))


def test_what_is_damaged_in_the_bucket_is_no_copy(
    bucket: Any, out: Path, address: str, tmp_path: Path
) -> None:
    shard = SealedSet.read(out).manifest.files()[0].path
    good = (out / shard).read_bytes()
    bucket.Object(f"sets/one/{shard}").put(Body=good[:-1] + bytes([good[-1] ^ 1]))
    with pytest.raises(StagingError, match=r"has SHA-256 .*, expected"):
        dataprep.stage(address, to=tmp_path / "copy")
    bucket.Object(f"sets/one/{shard}").delete()
    with pytest.raises(StagingError, match="is missing; push the data set again"):
        dataprep.stage(address, to=tmp_path / "copy")
    bucket.Object(f"sets/one/{shard}").put(Body=good)
    dataprep.stage(address, to=tmp_path / "copy")
    assert files_of(tmp_path / "copy") == files_of(out)


def test_half_a_set_is_none(bucket: Any, address: str, tmp_path: Path) -> None:
    bucket.Object("sets/one/manifest.json").delete()
    with pytest.raises(DatasetError, match=r"no manifest.json here, so no data set"):
        dataprep.stage(address, to=tmp_path / "copy")
    with pytest.raises(DatasetError, match=r"no manifest.json here, so no data set"):
        dataprep.open(address, cache=tmp_path / "cache")
