"""Reading a data set in a bucket: checked before anybody sees a byte, shared, evicted, forked."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
import time
from multiprocessing import AuthenticationError, get_context
from multiprocessing.connection import Client
from pathlib import Path
from typing import Any

import pytest

import dataprep
from dataprep.errors import NoRoomError, RemoteError, SinkError, UsageError
from dataprep.sealed.set import SealedSet
from dataprep.training.records import Records
from dataprep_schemas.manifest import Shard
from tests.conftest import Cli
from tests.datasets.packing import ones, write_folders


@pytest.fixture
def out(tmp_path: Path) -> Path:
    write_folders(tmp_path / "raw", ones())
    raw, out = tmp_path / "raw", tmp_path / "out"
    dataprep.prepare("folder", raw=raw, out=out, num_shards=3)
    return out


@pytest.fixture
def address(bucket: Any, out: Path) -> str:
    """Where it is in a bucket."""
    dataprep.push(out, f"s3://{bucket.name}/sets/one")
    return f"s3://{bucket.name}/sets/one"


def everything(records: Records) -> list[tuple[str, bytes, tuple[int, ...]]]:
    return [(one.key, one.encoded, one.labels) for one in records]


def test_the_same_records(out: Path, address: str, tmp_path: Path) -> None:
    ours = dataprep.open(address, "train", cache=tmp_path / "cache")
    assert everything(ours) == everything(dataprep.open(out, "train"))
    assert [one.key for one in ours.__getitems__([3, 0, 2])] == [ours[at].key for at in (3, 0, 2)]
    assert ours.labels.tolist() == dataprep.open(out, "train").labels.tolist()
    assert address in repr(ours)


def _read(records: Records, numbers: list[int]) -> list[bytes]:
    return records.encoded(numbers)


@pytest.mark.parametrize("kind", ["fork", "spawn"])
def test_other_processes_read_it_too(kind: str, out: Path, address: str, tmp_path: Path) -> None:
    ours = dataprep.open(address, "train", cache=tmp_path / "cache")
    numbers = list(range(len(ours)))
    with get_context(kind).Pool(2) as pool:
        found = pool.starmap(_read, [(ours, numbers)] * 4)
    assert found == [dataprep.open(out, "train").encoded(numbers)] * 4


def cached_files(cache: Path) -> set[str]:
    return {path.name for path in cache.glob("*/*/*") if path.is_file()}


def test_a_damaged_or_missing_shard_is_never_seen(
    bucket: Any, out: Path, address: str, tmp_path: Path
) -> None:
    shard = SealedSet.read(out).splits["train"].shards[1].files[0].path
    good = (out / shard).read_bytes()
    bucket.Object(f"sets/one/{shard}").put(Body=good[:-1] + bytes([good[-1] ^ 1]))
    records = dataprep.open(address, "train", cache=tmp_path / "cache")
    with pytest.raises(RemoteError, match=r"has SHA-256 \w+, expected \w+: it is damaged"):
        everything(records)
    bucket.Object(f"sets/one/{shard}").delete()
    with pytest.raises(RemoteError, match="is missing; push the data set again"):
        everything(records)
    assert Path(shard).name not in cached_files(tmp_path / "cache")
    bucket.Object(f"sets/one/{shard}").put(Body=good)
    assert everything(records) == everything(dataprep.open(out, "train"))


def test_what_is_in_the_cache_is_not_asked_for_again(
    bucket: Any, address: str, tmp_path: Path
) -> None:
    first = everything(dataprep.open(address, "train", cache=tmp_path / "cache"))
    for item in bucket.objects.filter(Prefix="sets/one/train"):
        item.delete()
    assert everything(dataprep.open(address, "train", cache=tmp_path / "cache")) == first


def test_the_cache_keeps_to_its_bytes(out: Path, address: str, tmp_path: Path) -> None:
    sizes = [sum(file.bytes for file in shard.files) for shard in shards_of(out)]
    most = max(sizes) + 10_000
    records = dataprep.open(address, "train", cache=tmp_path / "cache", cache_bytes=most)
    assert everything(records) == everything(dataprep.open(out, "train"))
    numbers = [*range(len(records))] * 2
    assert records.encoded(numbers) == dataprep.open(out, "train").encoded(numbers)
    kept = [path for path in (tmp_path / "cache").glob("*/[ti]*/**/*") if path.is_file()]
    assert 0 < sum(path.stat().st_blocks for path in kept) * 512 <= most + 3 * 4096
    with pytest.raises(UsageError, match=r"the largest shard of .* has .*; give several times"):
        dataprep.open(address, "train", cache=tmp_path / "cache", cache_bytes=100)


def test_no_shard_is_taken_from_under_a_reader(out: Path, address: str, tmp_path: Path) -> None:
    sizes = [sum(file.bytes for file in shard.files) for shard in shards_of(out)]
    how: dict[str, Any] = {"cache": tmp_path / "cache", "cache_bytes": max(sizes) + 10_000}
    records, other = (dataprep.open(address, "train", **how) for _ in range(2))
    with records, other:
        assert records[0].key
        with pytest.raises(NoRoomError, match="what is there is being read"):
            other.__getitem__(len(other) - 1)
        records.close()
        assert other[len(other) - 1].key


def shards_of(out: Path) -> tuple[Shard, ...]:
    return SealedSet.read(out).splits["train"].shards


@pytest.mark.parametrize("sink", ["tfrecord", "recordio", "webdataset", "hdf5", "parquet", "lmdb"])
def test_a_few_are_read_by_ranges(sink: str, bucket: Any, tmp_path: Path) -> None:
    write_folders(tmp_path / "raw", ones(64))
    out, address = tmp_path / "out", f"s3://{bucket.name}/many"
    dataprep.prepare("folder", raw=tmp_path / "raw", out=out, num_shards=2, sink=sink)
    dataprep.push(out, address)
    cache = tmp_path / "cache"
    keys = [dataprep.open(out, "train")[at].key for at in (3, 60)]
    where = f"key in ({', '.join(map(repr, keys))})"
    few = dataprep.open(address, "train", where=where, cache=cache)
    assert everything(few) == everything(dataprep.open(out, "train", where=where))
    assert few.encoded([1, 0, 1]) == [few[1].encoded, few[0].encoded, few[1].encoded]
    sparse = sorted(cache.glob("*/**/.*.ranges"))
    assert len(sparse) == (2 if sink in ("tfrecord", "recordio", "webdataset") else 0)
    for path in sparse:  # a torn one is mended
        path.write_bytes(bytes(path.stat().st_size))
    few = dataprep.open(address, "train", where=where, cache=cache)
    assert everything(few) == everything(dataprep.open(out, "train", where=where))
    kept = ("manifest.json", "records.parquet")
    for item in [it for it in bucket.objects.filter(Prefix="many/") if not it.key.endswith(kept)]:
        data = item.get()["Body"].read()
        item.put(Body=bytes(byte ^ 1 for byte in data))
    again = tmp_path / "again"
    with pytest.raises((SinkError, RemoteError), match=r"as records\.parquet has it|has SHA-256"):
        everything(dataprep.open(address, "train", where=where, cache=again))


def test_blocks_are_fetched_ahead(out: Path, address: str, tmp_path: Path) -> None:
    ours = dataprep.open(address, "train", cache=tmp_path / "cache")
    sampler = ours.sampler(2, shuffle="blocks", window=1, rank=0, world_size=1)
    batches = [list(numbers) for numbers in sampler]
    expected = dataprep.open(out, "train").sampler(
        2, shuffle="blocks", window=1, rank=0, world_size=1
    )
    assert batches == [list(numbers) for numbers in expected]
    names = {Path(file.path).name for shard in shards_of(out)[:] for file in shard.files}
    for _ in range(100):  # nobody has read an example
        if len(cached_files(tmp_path / "cache") & names) >= 2:
            break
        time.sleep(0.1)
    assert len(cached_files(tmp_path / "cache") & names) >= 2


def test_a_dead_process_of_requests_is_started_again(
    out: Path, address: str, tmp_path: Path
) -> None:
    import psutil

    ours = dataprep.open(address, "train", cache=tmp_path / "cache")
    for child in psutil.Process().children():
        if "dataprep.remote.server" in child.cmdline():
            child.kill()
            child.wait()
    assert everything(ours) == everything(dataprep.open(out, "train"))


@pytest.mark.thorough
def test_killed_readers_leave_a_cache_that_others_use(
    out: Path, address: str, tmp_path: Path
) -> None:
    code = "import dataprep, sys; list(dataprep.open(sys.argv[1], cache=sys.argv[2]))"
    command = [sys.executable, "-c", code, address, str(tmp_path / "cache")]
    for seconds in (0.3, 0.5, 0.7, 0.9, 1.1, 1.3):
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        time.sleep(seconds)
        process.kill()
        process.wait()
    ours = dataprep.open(address, "train", cache=tmp_path / "cache")
    assert everything(ours) == everything(dataprep.open(out, "train"))


def test_what_a_killed_reader_began_to_write_goes(out: Path, address: str, tmp_path: Path) -> None:
    dataprep.open(address, "train", cache=tmp_path / "cache").close()
    (place,) = (path.parent for path in tmp_path.glob("cache/*/manifest.json"))
    names = ("manifest.json", ".dataprep-bucket.json")
    left = [place / f".{name}.0123abcd.partial" for name in names]
    for path in left:
        path.write_bytes(b"{")
    again = dataprep.open(address, "train", cache=tmp_path / "cache")
    assert everything(again) == everything(dataprep.open(out, "train"))
    assert not any(path.exists() for path in left)


def test_commands_on_a_bucket(
    out: Path, address: str, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATAPREP_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    for level in ("size", "hash", "records", "decode"):
        result = cli("verify", address, "--level", level)
        assert (result.code, result.out.startswith(f"{address}: ")) == (0, True), result
    assert cli("inspect", address).out.startswith(f"{address}: folder, tfrecord")
    query = "select count(*) n from records where status = 'stored'"
    assert cli("sql", address, query).out == cli("sql", str(out), query).out
    assert cli("lint", address).out == cli("lint", str(out)).out.replace(str(out), address)
    card = ("--name", "one", "--license", "MIT", "--creator", "me", "--url", "https://a.b")
    assert cli("card", address, *card, "--description", "few").code == 0
    assert (tmp_path / "croissant.json").is_file()
    assert cli("report", address).out.strip() == str(tmp_path / "report.html")
    assert cli("diff", address, str(out)).code == 0
    converted = cli("convert", address, "--to", str(tmp_path / "lmdb"), "--sink", "lmdb")
    assert converted.code == 0, converted
    assert dataprep.diff(tmp_path / "lmdb", out).same


def test_verify_names_what_is_bad_in_the_bucket(
    bucket: Any, out: Path, address: str, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATAPREP_CACHE", str(tmp_path / "cache"))
    first, second = (shard.files[0].path for shard in shards_of(out)[:2])
    assert everything(dataprep.open(address, "train"))  # the cache is good
    bucket.Object(f"sets/one/{first}").delete()
    bucket.Object(f"sets/one/{second}").put(Body=(out / second).read_bytes()[::-1])
    result = cli("verify", address)
    assert (result.code, f"bad: {first}: is missing" in result.out) == (1, True), result
    assert f"bad: {second}: its SHA-256 is not the manifest's" in result.out
    assert "run `dataprep push` again" in result.err


def test_who_says_nothing_or_has_no_key_keeps_nobody_out(
    out: Path, address: str, tmp_path: Path
) -> None:
    """The socket has no file, so any user of this machine may try."""
    from dataprep.remote.process import requests, socket_address

    ours = dataprep.open(address, "train", cache=tmp_path / "cache")
    place = socket_address(requests()._place)
    with pytest.raises(AuthenticationError):
        Client(place, family="AF_UNIX", authkey=b"guessed")
    with Client(place, family="AF_UNIX"):  # says nothing
        found: list[object] = []
        reading = threading.Thread(target=lambda: found.append(everything(ours)))
        reading.start()
        reading.join(60)
        assert found == [everything(dataprep.open(out, "train"))]


def test_nothing_but_shards_of_the_cache_is_ever_evicted(
    out: Path, address: str, tmp_path: Path
) -> None:
    """The directory may be anybody's scratch, with data sets and whatever else in it."""
    top = tmp_path / "scratch"
    mine = {"set/train/a": b"1" * 9000, "f" * 32 + "/b": b"2" * 9000, "c": b"3"}
    for name, data in mine.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_bytes(data)
    most = max(sum(file.bytes for file in shard.files) for shard in shards_of(out)) + 10_000
    records = dataprep.open(address, "train", cache=top, cache_bytes=most)
    assert everything(records) == everything(dataprep.open(out, "train"))
    assert {name: (top / name).read_bytes() for name in mine} == mine
    assert not list((top / "set").glob(".*"))


def test_a_stranger_s_set_cannot_say_that_it_is_a_cache(
    bucket: Any, out: Path, address: str, tmp_path: Path
) -> None:
    """It would have shards fetched, and others beside it evicted."""
    theirs = tmp_path / "sets" / SealedSet.read(out).manifest.sha256[:32]
    shutil.copytree(out, theirs)
    (theirs / ".dataprep-bucket.json").write_text(json.dumps(["0" * 64, address, 1]))
    (theirs.parent / ".dataprep-room").touch()
    shard = shards_of(out)[0].files[0].path
    (theirs / shard).unlink()
    with pytest.raises(SinkError, match="No such file"):
        everything(dataprep.open(theirs, "train"))
    assert not (theirs / shard).exists()
