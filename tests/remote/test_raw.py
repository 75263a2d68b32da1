"""Raw data in a bucket gives the bytes that it gives in a directory."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import dataprep
from dataprep.errors import DatasetError, RemoteError, SourceError
from dataprep.sealed.set import SealedSet
from dataprep_schemas.manifest import File, RecordsFile
from tests.conftest import Cli, Made, hashes
from tests.datasets.packing import WRITERS, ones, write_folders


def upload(raw: Path, bucket: Any, prefix: str = "raw") -> str:
    for path in sorted(raw.rglob("*")):
        if path.is_file():
            bucket.Object(f"{prefix}/{path.relative_to(raw)}").put(Body=path.read_bytes())
    return f"s3://{bucket.name}/{prefix}"


def files_of(out: Path) -> dict[str, str]:
    manifest = SealedSet.read(out).manifest
    files: list[File | RecordsFile] = [*manifest.files(), manifest.records_table]
    return {file.path: file.sha256 for file in files}


def pack_classes(raw: Path, form: str) -> None:
    """Each class folder as an archive."""
    for folder in [each for each in raw.glob("*/*") if each.is_dir()]:
        shutil.make_archive(str(folder), form, folder)
        shutil.rmtree(folder)


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    write_folders(tmp_path / "raw", ones())
    return tmp_path / "raw"


@pytest.mark.parametrize("form", ["", "zip", "tar", "gztar"])
def test_archives_and_images(form: str, raw: Path, bucket: Any, tmp_path: Path) -> None:
    if form:
        pack_classes(raw, form)
    address = upload(raw, bucket)
    for place, name in ((str(raw), "here"), (address, "there")):
        dataprep.prepare("folder", raw=place, out=tmp_path / name, num_shards=2, workers=2)
    assert files_of(tmp_path / "here") == files_of(tmp_path / "there")


@pytest.mark.parametrize("form", WRITERS)
def test_shards_of_others(form: str, bucket: Any, tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    WRITERS[form](raw, ones())
    address = upload(raw, bucket)
    for place, name in ((str(raw), "here"), (address, "there")):
        dataprep.prepare("shards", raw=place, out=tmp_path / name, num_shards=2, label_base="0")
    assert files_of(tmp_path / "here") == files_of(tmp_path / "there")


@pytest.mark.parametrize("which", ["photos", "radiographs"])
def test_the_published_archives(
    which: str, bucket: Any, cli: Cli, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    made: Made = request.getfixturevalue(which)
    address = upload(made.raw.path, bucket)
    words = [address if word == str(made.raw.path) else word for word in made.command(tmp_path)]
    result = cli(*words)
    assert (result.code, hashes(tmp_path)) == (0, made.files)


def test_a_changed_object_stops_the_run(raw: Path, bucket: Any, tmp_path: Path) -> None:
    pack_classes(raw, "tar")
    address, out = upload(raw, bucket), tmp_path / "out"
    dataprep.plan("folder", raw=address, out=out)
    from dataprep.remote import raw as module

    laid_out = module.laid_out(address, tmp_path / "place")
    archive = sorted(raw.glob("*/*.tar"))[0].relative_to(raw)
    bucket.Object(f"raw/{archive}").put(Body=(raw / archive).read_bytes() + bytes(512))
    found = module.bucket_at(str(laid_out))
    assert found is not None
    with pytest.raises(RemoteError, match="somebody has changed the object"):
        found.read(str(archive), 0, 512)
    # A later run sees it as it is now.
    dataprep.prepare("folder", raw=address, out=out)


@pytest.mark.parametrize("command", ["folder", "inspect"])
def test_no_file_beside_raw_has_anything_read_from_a_bucket(
    command: str, raw: Path, bucket: Any, cli: Cli, tmp_path: Path
) -> None:
    """Requests signed by this user's keys would go where an archive's author says."""
    from dataprep.remote.raw import laid_out

    own = laid_out(upload(raw, bucket), tmp_path / "place")
    theirs = tmp_path / "theirs"
    shutil.copytree(own.parent, theirs)  # as their own run has made it
    proof, said = json.loads((theirs / "dataprep-bucket.json").read_text())
    said[0] = f"s3://{bucket.name}/elsewhere"
    (theirs / "dataprep-bucket.json").write_text(json.dumps([proof, said]))
    words = {"folder": ["--raw", theirs / "files", "--out", tmp_path / "out", "--dry_run"]}
    result = cli(command, *words.get(command, [theirs / "files"]))
    assert "no run of this user has put it there" in result.error


def test_what_is_laid_out_stays_while_the_bucket_does(
    raw: Path, bucket: Any, tmp_path: Path
) -> None:
    from dataprep.remote.raw import laid_out

    address, place = upload(raw, bucket), tmp_path / "place"
    first = laid_out(address, place)
    abandoned = first.parent.with_name(f".{first.parent.name}.0123abcd.partial")
    abandoned.mkdir()
    number = first.stat().st_ino
    assert laid_out(address, place).stat().st_ino == number
    os.utime(abandoned, (0, 0))
    bucket.Object("raw/one_more.txt").put(Body=b"1")
    assert (laid_out(address, place) / "one_more.txt").read_bytes() == b"1"
    assert first.stat().st_ino != number
    assert os.listdir(place) == [first.parent.name]  # noqa: PTH208  # names
    first.parent.chmod(0o777)
    with pytest.raises(DatasetError, match=r"may be written by others.*choose an --index_dir"):
        laid_out(address, place)


@pytest.mark.thorough
def test_killed_again_and_again(raw: Path, bucket: Any, tmp_path: Path) -> None:
    pack_classes(raw, "tar")
    address = upload(raw, bucket)
    dataprep.prepare("folder", raw=raw, out=tmp_path / "here", num_shards=4)
    words = ["folder", "--raw", address, "--out", str(tmp_path / "there"), "--num_shards", "4"]
    command = [sys.executable, "-m", "dataprep", *words]
    for seconds in (1.0, 1.5, 2.0, 2.5, 3.0, 3.5):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(seconds)
        process.send_signal(signal.SIGKILL)
        process.wait()
    for _ in range(20):  # until the lock of the last one is old enough
        if subprocess.run(command, capture_output=True, check=False).returncode == 0:
            break
        time.sleep(1)
    assert files_of(tmp_path / "here") == files_of(tmp_path / "there")


def test_what_cannot_be_read_so_is_refused_in_a_line(bucket: Any, tmp_path: Path) -> None:
    address, out = f"s3://{bucket.name}/raw", tmp_path / "out"
    with pytest.raises(SourceError, match="has no objects; check the address"):
        dataprep.prepare("folder", raw=address, out=out)
    bucket.Object("raw/a").put(Body=b"1")
    bucket.Object("raw/a/b.jpg").put(Body=b"1")
    with pytest.raises(SourceError, match="a is an object and a folder; rename one"):
        dataprep.prepare("folder", raw=address, out=out)
    bucket.Object("raw/a").delete()
    bucket.Object("raw/../b.jpg").put(Body=b"1")
    with pytest.raises(RemoteError, match="object with invalid path"):
        dataprep.prepare("folder", raw=address, out=out)
