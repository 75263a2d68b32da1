"""Azure, as azurite has it: a set is whole or is none, and Microsoft's client reads it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import dataprep
from dataprep.errors import DatasetError, RemoteError
from tests.conftest import Cli
from tests.datasets.packing import ones, write_folders
from tests.remote.test_push import expected
from tests.remote.test_push import out as out
from tests.remote.test_raw import files_of, pack_classes


def there(container: Any, prefix: str = "sets/one/") -> Mapping[str, str]:
    """Hashes of what is in the container, as Microsoft's client reads it."""
    return {
        name.removeprefix(prefix): hashlib.sha256(
            container.download_blob(name).readall()
        ).hexdigest()
        for name in container.list_blob_names(name_starts_with=prefix)
    }


@pytest.fixture
def address(container: Any, out: Path) -> str:
    """Where the set is."""
    dataprep.push(out, f"az://{container.container_name}/sets/one")
    return f"az://{container.container_name}/sets/one"


def test_all_of_it_is_there_and_nothing_else(container: Any, out: Path, address: str) -> None:
    assert there(container) == expected(out)
    assert dataprep.push(out, address).uploaded == 0
    first = sorted(expected(out))[0]
    container.delete_blob(f"sets/one/{first}")
    assert dataprep.push(out, address).uploaded == 1
    container.upload_blob("sets/one/other", b"1")
    assert dataprep.push(out, address, delete_others=True).deleted == 1
    assert there(container) == expected(out)


def test_a_set_that_grew_takes_its_place_and_another_does_not(
    container: Any, out: Path, address: str, tmp_path: Path
) -> None:
    write_folders(tmp_path / "raw", [one._replace(key=f"{one.key}.png") for one in ones(9)])
    dataprep.prepare("folder", raw=tmp_path / "raw", out=out, append=True)
    dataprep.push(out, address)
    assert expected(out).items() <= there(container).items()
    other = tmp_path / "other"
    dataprep.prepare("folder", raw=tmp_path / "raw", out=other, seed=1, limit=5)
    with pytest.raises(DatasetError, match=r"has another data set .* does not descend from"):
        dataprep.push(other, address)
    dataprep.push(other, address, overwrite=True)
    assert expected(other).items() <= there(container).items()


def test_who_is_sooner_wins(container: Any, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dataprep.remote.store import Store

    commit = Store.commit

    def late(store: Store, path: str, *rest: Any) -> bool:
        if path == "manifest.json":
            container.upload_blob(f"sets/one/{path}", b"{}")
        return commit(store, path, *rest)

    monkeypatch.setattr(Store, "commit", late)
    with pytest.raises(DatasetError, match="somebody else put another manifest"):
        dataprep.push(out, f"az://{container.container_name}/sets/one")


def test_it_is_staged_opened_and_checked(
    out: Path, address: str, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATAPREP_CACHE", str(tmp_path / "cache"))
    dataprep.stage(address, to=tmp_path / "copy")
    assert expected(tmp_path / "copy") == expected(out)
    with dataprep.open(address, "train") as ours, dataprep.open(out, "train") as local:
        assert [one.encoded for one in ours] == [one.encoded for one in local]
        where = f"key = '{local[1].key}'"
        assert dataprep.open(address, where=where)[0].encoded == local[1].encoded
    assert cli("verify", address, "--level", "records").code == 0


def test_a_damaged_shard_is_never_seen(
    container: Any, out: Path, address: str, tmp_path: Path
) -> None:
    shard = min(name for name in expected(out) if name.startswith("train/"))
    container.upload_blob(f"sets/one/{shard}", (out / shard).read_bytes()[::-1], overwrite=True)
    with pytest.raises(RemoteError, match=r"has SHA-256 \w+, expected \w+: it is damaged"):
        list(dataprep.open(address, "train", cache=tmp_path / "cache"))


def test_raw_archives_are_read_in_place(container: Any, tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    write_folders(raw, ones())
    pack_classes(raw, "tar")
    for path in raw.rglob("*.tar"):
        container.upload_blob(f"raw/{path.relative_to(raw)}", path.read_bytes())
    places = {"here": str(raw), "there": f"az://{container.container_name}/raw"}
    for name, place in places.items():
        dataprep.prepare("folder", raw=place, out=tmp_path / name, num_shards=2)
    assert files_of(tmp_path / "here") == files_of(tmp_path / "there")


def test_a_container_that_is_not_there_is_one_line(container: Any, out: Path) -> None:
    with pytest.raises(RemoteError) as caught:
        dataprep.push(out, "az://no-such-container/x")
    assert "az://no-such-container/x" in str(caught.value)
    assert "\n" not in str(caught.value)
