"""Buckets in trouble: who downloads, what is said, what is kept secret, and what kills leave."""

from __future__ import annotations

import pickle
import random
import re
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import psutil
import pytest

import dataprep
from dataprep.sealed.set import SealedSet
from dataprep_schemas.manifest import File, RecordsFile
from tests.conftest import Cli
from tests.remote.conftest import SECRET
from tests.remote.server import Faults
from tests.remote.test_faults import Truth, contents
from tests.remote.test_faults import truth as truth
from tests.remote.test_push import out as out

_ADDRESS = "s3://bucket/sets/one"
_TOKEN = "a token that nobody may see"
_READ = "import dataprep, sys; list(dataprep.open(sys.argv[1], cache=sys.argv[2]))"
_TROUBLE = ("busy", "cut", "error", "flip", "many", "short", "slow", "stale")


def fill(truth: Truth, out: Path) -> None:
    for path, data in contents(out).items():
        truth.put(path, data[::-1])  # what is stale
        truth.put(path, data)


def sent(truth: Truth) -> Counter[str]:
    """Bytes of each object that were asked for."""
    found = Counter[str]()
    for request, _, size, _ in truth.log():
        method, path, *_ = request.split(" ")
        found[path.removeprefix("bucket/sets/one/")] += size if method == "GET" else 0
    return found


def test_a_shard_is_downloaded_once_for_all_readers(
    truth: Truth, out: Path, tmp_path: Path
) -> None:
    fill(truth, out)
    truth.set(Faults(rate=1.0, kinds=("slow",), seconds=0.3))  # so that all want the same one
    command: list[str | Path] = [sys.executable, "-c", _READ, _ADDRESS, tmp_path / "cache"]
    readers = [subprocess.Popen(command) for _ in range(4)]
    assert [reader.wait(120) for reader in readers] == [0] * 4
    manifest = SealedSet.read(out).manifest
    files: list[File | RecordsFile] = [*manifest.files(), manifest.records_table]
    expected = {file.path: file.bytes for file in files}
    found = sent(truth)
    assert found.pop("manifest.json") == 4 * (out / "manifest.json").stat().st_size
    assert found == expected


def test_staging_says_how_many_requests_were_tried_again(
    truth: Truth, out: Path, tmp_path: Path
) -> None:
    fill(truth, out)
    truth.set(Faults(seed=3, rate=0.5, kinds=("busy", "many", "error")))
    done = dataprep_says("stage", _ADDRESS, "--to", tmp_path / "copy")
    assert done.returncode == 0, done.stderr
    again = sum(status in (429, 500, 503) for _, status, _, _ in truth.log())
    said = re.search(r"(\d+) requests? had to be tried again", done.stdout + done.stderr)
    assert said is not None, done
    assert int(said[1]) == again > 0


def dataprep_says(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dataprep", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


def test_no_secret_is_printed_or_kept(
    truth: Truth, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", _TOKEN)
    monkeypatch.setenv("DATAPREP_CACHE", str(tmp_path / "cache"))
    raw = tmp_path / "raw"
    for path in [path for path in raw.rglob("*") if path.is_file()]:
        truth.ask("PUT", f"bucket/raw/{path.relative_to(raw)}", path.read_bytes())
    fill(truth, out)
    for words in (
        ("push", out, "s3://bucket/sets/two"),
        ("stage", _ADDRESS, "--to", tmp_path / "copy"),
        ("verify", _ADDRESS, "--level", "records"),
        ("folder", "--raw", "s3://bucket/raw", "--out", tmp_path / "made", "--num_shards", "2"),
        ("doctor", out),
    ):
        done = dataprep_says("--debug", *words)
        assert done.returncode == 0, done.stderr
        assert_no_secret((done.stdout + done.stderr).encode(), str(words))
    with dataprep.open(_ADDRESS, "train") as records:
        assert records[0].encoded
        assert_no_secret(pickle.dumps(records), "pickled")
    kept = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.relative_to(tmp_path).parts[0] for path in kept} >= {"cache", "copy", "made"}
    for path in kept:
        assert_no_secret(path.read_bytes(), str(path))
    truth.set(Faults(expired=("somebody",)))  # nothing works, and all of it is said
    for words in (("push", out, "s3://bucket/three"), ("stage", _ADDRESS, "--to", tmp_path / "4")):
        failed = cli("--debug", *map(str, words))
        assert (failed.code, "Traceback" in failed.err) == (1, True)
        assert_no_secret((failed.out + failed.err).encode(), str(words))


def assert_no_secret(data: bytes, where: str) -> None:
    for secret in (SECRET, _TOKEN):
        assert secret.encode() not in data, where


def save_profile(place: Path, key: str) -> None:
    new = place.with_suffix(".new")
    new.write_text(f"[work]\naws_access_key_id = {key}\naws_secret_access_key = {SECRET}\n")
    new.replace(place)


@pytest.fixture
def profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a profile, whose key is ``first``."""
    place = tmp_path / "credentials"
    save_profile(place, "first")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(place))
    monkeypatch.setenv("AWS_PROFILE", "work")
    return place


def expiring(truth: Truth, profile: Path, after: int) -> threading.Thread:
    """Have the key expire after some requests, and be another one soon after."""

    def expire() -> None:
        while len(truth.log()) < after:
            time.sleep(0.01)
        truth.set(Faults(expired=("first",)))
        while not any(status == 400 for _, status, _, _ in truth.log()):
            time.sleep(0.01)
        save_profile(profile, "second")

    return threading.Thread(target=expire, daemon=True)


@pytest.mark.parametrize("job", ["push", "stage", "open"])
def test_a_profile_that_is_written_anew_in_mid_run_is_read_anew(
    job: str, truth: Truth, out: Path, profile: Path, tmp_path: Path
) -> None:
    fill(truth, out)
    jobs: dict[str, Callable[[], object]] = {
        "push": lambda: dataprep.push(out, "s3://bucket/two"),
        "stage": lambda: dataprep.stage(_ADDRESS, to=tmp_path / "copy"),
        "open": lambda: list(dataprep.open(_ADDRESS, cache=tmp_path / "cache")),
    }
    truth.set(Faults(rate=1.0, kinds=("slow",), seconds=0.1))
    thread = expiring(truth, profile, 3)
    thread.start()
    jobs[job]()
    thread.join(10)
    statuses = [status for _, status, _, _ in truth.log()]
    assert 400 in statuses
    assert statuses[-1] in (200, 206)


@pytest.mark.thorough
@pytest.mark.parametrize("job", ["push", "stage", "open"])
def test_kills_in_trouble_leave_nothing_wrong(
    job: str, truth: Truth, out: Path, tmp_path: Path
) -> None:
    expected, draw = contents(out), random.Random(job)
    place, children = tmp_path / "place", list[psutil.Process]()
    words = {
        "push": ["-m", "dataprep", "push", str(out), "s3://bucket/sets/two"],
        "stage": ["-m", "dataprep", "stage", _ADDRESS, "--to", str(place)],
        "open": ["-c", _READ, _ADDRESS, str(place)],
    }
    command, killed = [sys.executable, *words[job]], 0
    for number in range(12):
        if number % 4 == 0:  # what was there has been completed
            truth.ask("DELETE", "-/objects")
            shutil.rmtree(place, ignore_errors=True)
            fill(truth, out)
        last = number % 4 == 3
        truth.set(Faults() if last else Faults(number, 0.2, _TROUBLE, seconds=0.2))
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        requests = 1000 if last else draw.randint(1, 8)
        while process.poll() is None and len(truth.log()) < requests:
            time.sleep(0.005)
        if process.poll() is None:
            children += psutil.Process(process.pid).children(recursive=True)
            process.kill()
            killed += 1
        assert process.wait() == 0 or not last
        check(place, expected)
    assert killed >= 3  # others were faster, or failed
    assert (job == "open") <= bool(children)
    assert psutil.wait_procs(children, timeout=20)[1] == []
    if job == "push":
        assert {path: truth.ask("GET", f"bucket/sets/two/{path}") for path in expected} == expected
    if job == "stage":
        assert contents(place) == expected
    assert list(place.rglob("*.partial")) == []


def check(place: Path, expected: Mapping[str, bytes]) -> None:
    """Whatever has the name of a file of the set is that file."""
    for name, data in expected.items():
        for path in (place / name, *place.glob(f"{'?' * 32}/{name}")):  # or in a cache
            assert not path.exists() or path.read_bytes() == data, path
