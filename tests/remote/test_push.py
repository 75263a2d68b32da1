"""A data set in a bucket is whole or is none: pushed, again, grown, damaged, killed, refused."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import dataprep
from dataprep.errors import DatasetError, RemoteError, UsageError
from dataprep.sealed.set import SealedSet
from dataprep_schemas.manifest import File, RecordsFile
from tests.conftest import Cli
from tests.datasets.packing import ones, write_folders
from tests.remote.conftest import use


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A small set, of which a shard has several parts in the store."""
    write_folders(tmp_path / "raw", ones())
    (tmp_path / "raw" / "train" / "bakery" / "large.jpg").write_bytes(large())
    dataprep.prepare("folder", raw=tmp_path / "raw", out=tmp_path / "out", num_shards=3)
    return tmp_path / "out"


def large() -> bytes:
    """A photograph of 9 MB: its comment is long."""
    from tests.fuzz.raw_readers import picture

    data = picture()
    comments = b"".join(b"\xff\xfe\xff\xff" + bytes(65533) for _ in range(140))
    return data[:2] + comments + data[2:]


def there(bucket: Any, prefix: str = "sets/one/") -> Mapping[str, str]:
    """Hashes of what is in the bucket, as boto3 reads it."""
    return {
        item.key.removeprefix(prefix): hashlib.sha256(item.get()["Body"].read()).hexdigest()
        for item in bucket.objects.filter(Prefix=prefix)
    }


def expected(out: Path) -> Mapping[str, str]:
    manifest = SealedSet.read(out).manifest
    files: list[File | RecordsFile] = [*manifest.files(), manifest.records_table]
    sealed = hashlib.sha256((out / "manifest.json").read_bytes()).hexdigest()
    return {**{file.path: file.sha256 for file in files}, "manifest.json": sealed}


def test_all_of_it_is_there_and_nothing_else(bucket: Any, out: Path) -> None:
    address = f"s3://{bucket.name}/sets/one"
    planned = dataprep.push(out, address, dry_run=True)
    assert there(bucket) == {}
    done = dataprep.push(out, address)
    assert there(bucket) == expected(out)
    assert (planned.uploaded, done.uploaded, done.files) == (8, 8, 8)
    again = dataprep.push(out, address)
    assert (again.uploaded, again.uploaded_bytes) == (0, 0)


_S3FS = """
import hashlib, json, s3fs, sys
bucket = s3fs.S3FileSystem(endpoint_url=sys.argv[1])
read = {path: bucket.cat_file(path) for path in bucket.find(sys.argv[2])}
print(json.dumps({path: hashlib.sha256(data).hexdigest() for path, data in read.items()}))
"""


def test_s3fs_reads_the_same(bucket: Any, out: Path) -> None:
    python = os.environ.get("DATAPREP_S3FS_PYTHON")
    if python is None:
        pytest.skip("set DATAPREP_S3FS_PYTHON to a Python that has s3fs: make readers")
    dataprep.push(out, f"s3://{bucket.name}/sets/one")
    place = f"{bucket.name}/sets/one"
    read = subprocess.check_output([python, "-c", _S3FS, server_of(bucket), place], text=True)
    found = {path.removeprefix(f"{place}/"): sha256 for path, sha256 in json.loads(read).items()}
    assert found == expected(out)


def test_what_is_missing_or_of_another_content_is_uploaded(bucket: Any, out: Path) -> None:
    address = f"s3://{bucket.name}/sets/one"
    dataprep.push(out, address)
    first, second, *_ = (file.path for file in SealedSet.read(out).manifest.files())
    bucket.Object(f"sets/one/{first}").delete()
    bucket.Object(f"sets/one/{second}").put(Body=(out / second).read_bytes()[::-1])
    assert dataprep.push(out, address).uploaded == 2
    assert there(bucket) == expected(out)


def test_a_damaged_shard_leaves_no_set(bucket: Any, out: Path) -> None:
    shard = out / SealedSet.read(out).manifest.files()[-2].path
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)
    with pytest.raises(DatasetError, match="is not what the manifest says; `dataprep verify`"):
        dataprep.push(out, f"s3://{bucket.name}/sets/one")
    assert "manifest.json" not in there(bucket)
    assert shard.relative_to(out).as_posix() not in there(bucket)


def test_a_set_that_grew_takes_its_place_and_keeps_what_was_read(
    bucket: Any, out: Path, tmp_path: Path
) -> None:
    address = f"s3://{bucket.name}/sets/one"
    dataprep.push(out, address)
    before = there(bucket)
    write_folders(tmp_path / "raw", [one._replace(key=f"{one.key}.png") for one in ones(9)])
    dataprep.prepare("folder", raw=tmp_path / "raw", out=out, append=True)
    dataprep.push(out, address)
    after = there(bucket)
    assert expected(out).items() <= after.items()
    shards = {path for path in before if path.startswith("train/")}
    assert {path: before[path] for path in shards} == {path: after[path] for path in shards}


def test_another_set_is_not_replaced_by_accident(bucket: Any, out: Path, tmp_path: Path) -> None:
    address = f"s3://{bucket.name}/sets/one"
    dataprep.push(out, address)
    other = tmp_path / "other"
    dataprep.prepare("folder", raw=tmp_path / "raw", out=other, seed=1, limit=5)
    with pytest.raises(DatasetError, match=r"has another data set .* does not descend from"):
        dataprep.push(other, address)
    assert there(bucket) == expected(out)
    dataprep.push(other, address, overwrite=True)
    assert expected(other).items() <= there(bucket).items()


def test_who_is_sooner_wins(bucket: Any, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dataprep.remote.store import Store

    commit = Store.commit

    def late(store: Store, path: str, *rest: Any) -> bool:
        if path == "manifest.json":
            bucket.Object(f"sets/one/{path}").put(Body=b"{}")
        return commit(store, path, *rest)

    monkeypatch.setattr(Store, "commit", late)
    with pytest.raises(DatasetError, match="somebody else put another manifest"):
        dataprep.push(out, f"s3://{bucket.name}/sets/one")


def test_a_lost_answer_is_ones_own(bucket: Any, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dataprep.remote.store import Store

    commit = Store.commit

    def twice(store: Store, path: str, data: bytes, *rest: Any) -> bool:
        bucket.Object(f"sets/one/{path}").put(Body=data)  # as if it had been stored already
        return commit(store, path, data, *rest)

    monkeypatch.setattr(Store, "commit", twice)
    dataprep.push(out, f"s3://{bucket.name}/sets/one")
    assert there(bucket)["manifest.json"] == expected(out)["manifest.json"]


@pytest.mark.thorough
def test_killed_at_any_moment_it_is_none_and_then_whole(bucket: Any, out: Path) -> None:
    address = f"s3://{bucket.name}/sets/one"
    for seconds in (0.4, 0.6, 0.8, 1.0, 1.2, 1.5):
        push = subprocess.Popen([sys.executable, "-m", "dataprep", "push", out, address])
        time.sleep(seconds)
        push.send_signal(signal.SIGKILL)
        push.wait()
        found = {**there(bucket)}
        found.pop(".dataprep-push", None)  # the claim of the one that was killed
        assert "manifest.json" not in found or found == expected(out)
        assert found.items() <= expected(out).items()
    dataprep.push(out, address)
    assert there(bucket) == expected(out)


@pytest.mark.parametrize("address", ["ftp://bucket/x", "s3://", "https://bucket/x"])
def test_what_is_no_address_is_said(address: str, out: Path) -> None:
    with pytest.raises(UsageError, match="is no place in a bucket; expected s3://"):
        dataprep.push(out, address)


def test_missing_credentials_are_named(
    server: str, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    with pytest.raises(RemoteError, match=r"; set AZURE_STORAGE_ACCOUNT_NAME and AZURE_"):
        dataprep.push(out, "az://container/x")


def test_what_asks_nothing_needs_no_credentials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    for name in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AZURE_STORAGE_ACCOUNT_NAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_PROFILE", "nobody's")
    for address in ("az://container/x", "s3://bucket/x"):
        assert cli("hook", "slurm", address, "--to", tmp_path).code == 0
        status = cli("stage", address, "--to", tmp_path, "--status")
        assert (status.code, status.out) == (1, f"{tmp_path}: nothing was staged here\n")


def test_the_password_of_an_endpoint_is_not_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "key")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://user:open-sesame@127.0.0.1:1")
    failed = cli("--debug", "stage", "s3://bucket/x", "--to", tmp_path)
    assert failed.code == 1
    assert "http://127.0.0.1:1" in failed.err
    assert "sesame" not in failed.out + failed.err


@pytest.mark.parametrize("verb", ["push", "open"])
def test_a_bucket_that_is_not_there_is_one_line(
    bucket: Any, out: Path, tmp_path: Path, verb: str
) -> None:
    place = "s3://no-such-bucket/x"
    said = rf"{place}: \S+: there is no bucket no-such-bucket; check the address, or make the .*"
    with pytest.raises(RemoteError) as caught:
        dataprep.push(out, place) if verb == "push" else dataprep.open(place, cache=tmp_path)
    assert re.fullmatch(said, str(caught.value))
    assert "a secret" not in str(caught.value)


def test_the_command_says_what_it_did(bucket: Any, out: Path, cli: Cli) -> None:
    done = cli("push", out, f"s3://{bucket.name}/sets/one")
    assert done.code == 0
    assert "uploaded 8 of them" in done.out
    assert cli("push", out, "nowhere://x").code == 2


def test_a_push_of_a_grown_set_may_end_anywhere(
    bucket: Any, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who has the old manifest reads the old set, who has the new one the new."""
    from dataprep.remote.store import Store

    address = f"s3://{bucket.name}/sets/one"
    dataprep.push(out, address)
    before = [one.key for one in dataprep.open(out)]
    write_folders(tmp_path / "raw", [one._replace(key=f"{one.key}.png") for one in ones(9)])
    dataprep.prepare("folder", raw=tmp_path / "raw", out=out, append=True)
    after = [one.key for one in dataprep.open(out)]
    writes = ("put", "commit")
    real = {name: getattr(Store, name) for name in writes}
    for allowed in range(20):
        left = iter(range(allowed))

        def stopping(name: str, left: Any = left) -> Any:
            def act(store: Store, *words: Any) -> Any:
                if next(left, None) is None:
                    raise RemoteError("killed")
                return real[name](store, *words)

            return act

        for name in writes:
            monkeypatch.setattr(Store, name, stopping(name))
        try:
            dataprep.push(out, address)
            done = True
        except RemoteError:
            done = False
        monkeypatch.undo()
        use(server_of(bucket), monkeypatch)
        found = [one.key for one in dataprep.open(address, cache=tmp_path / f"cache-{allowed}")]
        assert found in (before, after)
        dataprep.stage(address, to=tmp_path / f"copy-{allowed}")
        assert [one.key for one in dataprep.open(tmp_path / f"copy-{allowed}")] == found
        assert dataprep.verify(tmp_path / f"copy-{allowed}").problems == ()
        if done:
            assert found == after
            return
    pytest.fail("it never ended")


def server_of(bucket: Any) -> str:
    return str(bucket.meta.client.meta.endpoint_url)


def test_others_are_deleted_if_that_is_asked_for(bucket: Any, out: Path) -> None:
    address = f"s3://{bucket.name}/sets/one"
    for key in ("sets/one/old", "sets/one/train/older", "sets/two"):
        bucket.Object(key).put(Body=b"1")
    dataprep.push(out, address)
    assert dataprep.push(out, address, delete_others=True, dry_run=True).deleted == 2
    assert dataprep.push(out, address, delete_others=True).deleted == 2
    assert there(bucket) == expected(out)
    assert bucket.Object("sets/two").get()["Body"].read() == b"1"
    bucket.Object("sets/one/deep/manifest.json").put(Body=b"{}")
    with pytest.raises(DatasetError, match=r"holds other data sets, deep/manifest\.json"):
        dataprep.push(out, address, delete_others=True)
    assert bucket.Object("sets/one/deep/manifest.json").get()["Body"].read() == b"{}"


def test_who_has_nothing_to_do_leaves_the_claim_of_another(bucket: Any, out: Path) -> None:
    address = f"s3://{bucket.name}/sets/one"
    dataprep.push(out, address)
    bucket.Object("sets/one/.dataprep-push").put(Body=b"0" * 64)
    assert dataprep.push(out, address).uploaded == 0
    assert bucket.Object("sets/one/.dataprep-push").get()["Body"].read() == b"0" * 64


def test_profiles_are_read_and_read_again(
    bucket: Any, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataprep.remote.store import Store

    credentials = tmp_path / "credentials"
    credentials.write_text("[work]\naws_access_key_id = one\naws_secret_access_key = two\n")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(credentials))
    monkeypatch.setenv("AWS_PROFILE", "work")
    dataprep.push(out, f"s3://{bucket.name}/sets/one")
    assert there(bucket) == expected(out)
    assert "two" not in repr(Store(f"s3://{bucket.name}")) + str(vars(Store(f"s3://{bucket.name}")))
    monkeypatch.setenv("AWS_PROFILE", "home")
    with pytest.raises(UsageError, match=r"home.*check AWS_PROFILE"):
        dataprep.push(out, f"s3://{bucket.name}/sets/one")


def test_the_hub_has_its_own_program(out: Path) -> None:
    with pytest.raises(UsageError, match="hf upload ORG/NAME OUT --repo-type dataset"):
        dataprep.push(out, "hf://datasets/a/b")


def test_two_other_sets_do_not_mix(bucket: Any, out: Path, tmp_path: Path) -> None:
    from dataprep.remote.store import Store

    address, other = f"s3://{bucket.name}/sets/one", tmp_path / "other"
    dataprep.prepare("folder", raw=tmp_path / "raw", out=other, seed=1, num_shards=3)
    put = Store.put

    def killed(store: Store, path: str, *rest: Any) -> None:
        if "00002" in path:
            raise RemoteError("killed")
        put(store, path, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Store, "put", killed)
        with pytest.raises(RemoteError, match="killed"):
            dataprep.push(out, address)
    with pytest.raises(DatasetError, match="a push of another data set has begun there"):
        dataprep.push(other, address)
    dataprep.push(out, address)
    assert there(bucket) == expected(out)
    dataprep.push(other, address, overwrite=True)
    assert expected(other).items() <= there(bucket).items()
    assert ".dataprep-push" not in there(bucket)
