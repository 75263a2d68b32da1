"""Seeded schedules of faults: never a wrong byte, never a hang, and the rerun completes.

``python -m tests.remote.test_faults push stage open raw --schedules 1000`` runs many, and ``--first
NUMBER --schedules 1`` one again.
"""

from __future__ import annotations

import argparse
import faulthandler
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import timedelta
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import pytest

import dataprep
from dataprep.errors import DataprepError, RemoteError
from dataprep.remote import process, store
from dataprep.remote.store import Store, own_name
from dataprep.sealed.set import SealedSet
from dataprep_schemas.manifest import File, RecordsFile
from tests.datasets.packing import ones, write_folders
from tests.remote.conftest import SECRET, misbehaving, use, variables
from tests.remote.server import KINDS, Faults

_ADDRESS: Final = "s3://bucket/sets/one"
_PREFIX: Final = "bucket/sets/one"
_SECONDS: Final = 300.0  # of a schedule; those that end have taken a third of it at most
_RATES: Final = (0.02, 0.1, 0.3, 0.6, 0.9)


# Nobody knows what raw data there should be, nor their hashes.
_UNSEEN: Final = {"raw": ("flip", "omit")}
_FORMS: Final = ("", "tar", "zip", "gztar")


# What a schedule is


@dataclass(frozen=True)
class Schedule:
    """What goes wrong in one run, and how it begins; all of it follows from the number."""

    job: str
    number: int

    @property
    def draw(self) -> random.Random:
        return random.Random(f"{self.job} {self.number}")

    @property
    def faults(self) -> Faults:
        draw = self.draw
        possible = [kind for kind in KINDS if kind not in _UNSEEN.get(self.job, ())]
        kinds = possible if draw.random() < 0.3 else draw.sample(possible, draw.randint(1, 4))
        rate = draw.choice(_RATES)
        last = draw.randint(1, 80) if draw.random() < 0.3 else 0
        return Faults(self.number, rate, tuple(kinds), last=last)

    def __str__(self) -> str:
        faults = self.faults
        last = f"; the end at request {faults.last}" if faults.last else ""
        return f"{self.job} {self.number} ({faults.rate:.0%} {', '.join(faults.kinds)}{last})"


class ViolationError(Exception):
    """What a schedule found that must never be."""


def require(condition: object, text: str) -> None:
    if not condition:
        raise ViolationError(text)


# The server, as one who is never lied to sees it


class Truth:
    """The server behind its faults."""

    def __init__(self, address: str) -> None:
        self.address = address

    def ask(self, method: str, path: str, data: bytes | None = None, **headers: str) -> bytes:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(f"{self.address}/{path}", data, named, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            found: bytes = answer.read()
        return found

    def set(self, faults: Faults) -> None:
        self.ask("PUT", "-/faults", json.dumps(asdict(faults)).encode())

    def put(self, path: str, data: bytes) -> None:
        digest = hashlib.sha256(data).hexdigest()
        self.ask("PUT", f"{_PREFIX}/{path}", data, x_amz_meta_sha256=digest)

    def get(self, path: str) -> bytes | None:
        try:
            return self.ask("GET", f"{_PREFIX}/{path}")
        except urllib.error.HTTPError:
            return None

    def log(self) -> list[tuple[str, int, int, str]]:
        return [
            (one, two, three, four)
            for one, two, three, four in json.loads(self.ask("GET", "-/log"))
        ]


def contents(out: Path) -> Mapping[str, bytes]:
    """The files of a data set."""
    manifest = SealedSet.read(out).manifest
    files: list[File | RecordsFile] = [*manifest.files(), manifest.records_table]
    names = [file.path for file in files]
    return {name: (out / name).read_bytes() for name in (*names, "manifest.json")}


# The jobs


def push(schedule: Schedule, truth: Truth, sets: Path, _: Path) -> str:
    """A set onto nothing, onto half of it, or onto what it grew from or has to replace."""
    draw = schedule.draw
    ours = draw.choice(("one", "grown"))
    before = draw.choice(("nothing", "half", "one", "other"))
    have = contents(sets / ("one" if before == "half" else before)) if before != "nothing" else {}
    for path, data in have.items():
        if before != "half":
            truth.put(path, data)
        elif path != "manifest.json" and draw.random() < 0.8:
            truth.put(path, data if draw.random() < 0.6 else data[::-1])
    options: dict[str, Any] = {"overwrite": before == "other", "delete_others": draw.random() < 0.3}
    truth.set(schedule.faults)
    said = _one_line(lambda: dataprep.push(sets / ours, _ADDRESS, **options))
    truth.set(Faults())
    named = {
        (sets / name / "manifest.json").read_bytes(): name for name in ("one", "grown", "other")
    }
    there = truth.get("manifest.json")
    require(said or there == (sets / ours / "manifest.json").read_bytes(), "done, and not there")
    # Whoever replaces a set of the same names breaks it meanwhile, and has asked for it. And a push
    # that is told that there is no manifest, as only a stale store does, spares no table.
    spared = not said or "stale" not in schedule.faults.kinds
    if there is not None and before != "other" and spared:
        require(there in named, "a manifest that nobody has written")
        _require_all(truth, sets / named[there])
    again = _one_line(lambda: dataprep.push(sets / ours, _ADDRESS, **options))
    require(not again, f"the rerun ended with: {again}")
    _require_all(truth, sets / ours)
    require(truth.get("records.parquet") == contents(sets / ours)["records.parquet"], "old table")
    return said


def _require_all(truth: Truth, out: Path) -> None:
    """A reader of this manifest finds every file of it."""
    for path, data in contents(out).items():
        found = truth.get(path)
        if path == "records.parquet" and found != data:
            found = truth.get(own_name(path, hashlib.sha256(data).hexdigest()))
        require(found == data, f"{path} is not what the manifest there says")


def stage(schedule: Schedule, truth: Truth, sets: Path, place: Path) -> str:
    """A set into a directory."""
    _fill(truth, sets)
    copy, expected = place / "copy", contents(sets / "one")
    truth.set(schedule.faults)
    said = _one_line(lambda: dataprep.stage(_ADDRESS, to=copy))
    truth.set(Faults())
    names = {path.relative_to(copy).as_posix() for path in copy.rglob("*") if path.is_file()}
    for name in names & expected.keys():
        require((copy / name).read_bytes() == expected[name], f"{name} is wrong")
    require(said or names >= expected.keys(), "done, and files are missing")
    again = _one_line(lambda: dataprep.stage(_ADDRESS, to=copy))
    require(not again, f"the rerun ended with: {again}")
    require(contents(copy) == expected, "the copy is another")
    return said


def open_(schedule: Schedule, truth: Truth, sets: Path, place: Path) -> str:
    """A set read in order, at random, and a few records by ranges, through a cache."""
    _fill(truth, sets)
    draw, local = schedule.draw, dataprep.open(sets / "one", "train")
    numbers = [draw.randrange(len(local)) for _ in range(40)]
    few = f"key in ({', '.join(repr(local[at].key) for at in numbers[:2])})"
    how: dict[str, Any] = {"cache": place / "cache", "cache_bytes": draw.choice((None, 40 << 20))}

    def read() -> None:
        where: dict[str, Any] = {"where": few} if draw.random() < 0.5 else {}
        with (
            dataprep.open(_ADDRESS, "train", **where, **how) as ours,
            dataprep.open(sets / "one", "train", **where) as expected,
        ):
            require(len(ours) == len(expected), "another number of records")
            at = [number % len(expected) for number in numbers]
            require(ours.encoded(at) == expected.encoded(at), "wrong bytes at random")
            require(
                [(one.key, one.encoded) for one in ours]
                == [(one.key, one.encoded) for one in expected],
                "wrong records in order",
            )

    truth.set(schedule.faults)
    said = _one_line(read)
    truth.set(Faults())
    again = _one_line(read)
    require(not again, f"the rerun ended with: {again}")
    return said


def raw(schedule: Schedule, truth: Truth, sets: Path, place: Path) -> str:
    """Images one by one, or in archives, made a set of."""
    form = schedule.draw.choice(_FORMS)
    there, expected = sets / f"raw-{form}", contents(sets / f"made-{form}")
    for path in sorted(there.rglob("*")):
        if path.is_file():
            truth.put(path.relative_to(there).as_posix(), path.read_bytes()[::-1])
            truth.put(path.relative_to(there).as_posix(), path.read_bytes())
    truth.set(schedule.faults)
    said = _one_line(lambda: make_of(_ADDRESS, place / "out"))
    truth.set(Faults())
    require(said != "" or contents(place / "out") == expected, "another set was made")
    again = _one_line(lambda: make_of(_ADDRESS, place / "out"))
    require(not again, f"the rerun ended with: {again}")
    require(contents(place / "out") == expected, "the rerun made another set")
    return said


def make_of(raw: str | Path, out: Path) -> None:
    dataprep.prepare("folder", raw=raw, out=out, num_shards=2, workers=1)


def _fill(truth: Truth, sets: Path) -> None:
    """The set there, and before it another one of the same names."""
    for path, data in contents(sets / "one").items():
        truth.put(path, data[::-1])
        truth.put(path, data)


def _one_line(act: Callable[[], object]) -> str:
    """What an error says; empty if there is none."""
    try:
        act()
    except DataprepError as error:
        said = str(error)
        require(said != "" and "\n" not in said and len(said) < 1000, f"not one line: {said!r}")
        require(SECRET not in said, f"a secret in {said!r}")
        return said
    return ""


JOBS: Final = {"push": push, "stage": stage, "open": open_, "raw": raw}


# Running them


@cache
def _server() -> Truth:
    """This process's own server; what failed is tried again at once."""
    import obstore.store

    address = misbehaving()
    os.environ.update(variables(address))
    hasten()
    process._SERVER = "tests.remote.hasty_requests"  # type: ignore[misc]  # Final for all others
    assert obstore.store
    return Truth(address)


def hasten() -> None:
    """No pauses that a test would wait for."""
    import obstore.store

    store._FIRST_PAUSE, store._LONGEST_PAUSE = 0.005, 0.02
    store._TIMEOUTS["read_timeout"] = "1s"
    from_url = obstore.store.from_url
    pauses = {"init_backoff": timedelta(milliseconds=5), "max_backoff": timedelta(milliseconds=20)}

    def hasty(*arguments: Any, retry_config: Any = None, **options: Any) -> Any:
        retries = retry_config or {"backoff": {**pauses, "base": 2}}
        return from_url(*arguments, retry_config=retries, **options)

    obstore.store.from_url = hasty


def run(job: str, number: int, sets: Path) -> tuple[int, str, str, float]:
    """Run a schedule: its number, what it violates, what the run ended with, and seconds."""
    schedule, truth, begun = Schedule(job, number), _server(), time.monotonic()
    problem = said = ""
    # What is fetched ahead may still come.
    gone = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    with gone as place, _watched(schedule):
        truth.set(Faults())
        truth.ask("DELETE", "-/objects")
        try:
            said = JOBS[job](schedule, truth, sets, Path(place))
        except ViolationError as error:
            problem = str(error)
        except Exception as error:  # noqa: BLE001  # which is what is looked for
            problem = f"{type(error).__name__}: {error}"
    return number, problem, said, time.monotonic() - begun


@contextmanager
def _watched(schedule: Schedule) -> Iterator[None]:
    def end() -> None:
        sys.stderr.write(f"{schedule} hangs:\n")
        faulthandler.dump_traceback()
        os._exit(1)

    watchdog = threading.Timer(_SECONDS, end)
    watchdog.daemon = True
    watchdog.start()
    try:
        yield
    finally:
        watchdog.cancel()


def make_sets(place: Path) -> None:
    """``one``, of a shard in several parts; ``grown`` out of it; and ``other``, unrelated."""
    from tests.remote.test_push import large
    from tests.remote.test_raw import pack_classes

    for form in _FORMS:
        write_folders(place / f"raw-{form}", ones())
        if form:
            pack_classes(place / f"raw-{form}", form)
        make_of(place / f"raw-{form}", place / f"made-{form}")
    raw = place / "raw"
    write_folders(raw, ones(24))
    (raw / "train" / "bakery" / "large.jpg").write_bytes(large())
    dataprep.prepare("folder", raw=raw, out=place / "one", num_shards=4)
    shutil.copytree(place / "one", place / "grown")
    write_folders(raw, [one._replace(key=f"{one.key}.png") for one in ones(9)])
    dataprep.prepare("folder", raw=raw, out=place / "grown", append=True)
    other: dict[str, Any] = {"raw": raw, "out": place / "other"}
    dataprep.prepare("folder", seed=1, limit=5, num_shards=4, **other)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("jobs", nargs="+", choices=JOBS)
    parser.add_argument("--schedules", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--verbose", action="store_true", help="also what ended well")
    options = parser.parse_args(arguments)
    bad = 0
    numbers = range(options.first, options.first + options.schedules)
    with tempfile.TemporaryDirectory() as place:
        sets = Path(place)
        # In a process of its own, since Beam may fork.
        subprocess.run([sys.executable, "-c", _MAKE, place], check=True)
        for job in options.jobs:
            ended, longest = Counter[bool](), 0.0
            with ProcessPoolExecutor(options.processes, get_context("spawn")) as pool:
                done = [pool.submit(run, job, number, sets) for number in numbers]
                for each in done:
                    number, problem, said, seconds = each.result()
                    longest = max(longest, seconds)
                    ended[bool(said)] += 1
                    if problem:
                        bad += 1
                        sys.stdout.write(f"{Schedule(job, number)}: {problem}\n  after: {said}\n")
                        sys.stdout.flush()
                    elif options.verbose:
                        sys.stdout.write(f"{Schedule(job, number)}: {said or 'completed'}\n")
            sys.stdout.write(
                f"{job}: {len(numbers):,} schedules, {bad} bad; {ended[False]:,} completed, "
                f"{ended[True]:,} after one line and a rerun; the longest took {longest:.0f} s\n"
            )
    return int(bad > 0)


_MAKE: Final = """
import sys
from pathlib import Path
from tests.remote.test_faults import make_sets
make_sets(Path(sys.argv[1]))
"""


@pytest.fixture
def truth(monkeypatch: pytest.MonkeyPatch) -> Truth:
    """The server, which S3 is now; without pauses that a test would wait for."""
    pytest.importorskip("obstore", reason="needs obstore: make readers")
    found = Truth(misbehaving())
    use(found.address, monkeypatch)
    monkeypatch.setattr(store, "_FIRST_PAUSE", 0.01)
    monkeypatch.setattr(store, "_LONGEST_PAUSE", 0.1)
    return found


@pytest.fixture
def out(tmp_path: Path) -> Path:
    write_folders(tmp_path / "raw", ones())
    make_of(tmp_path / "raw", tmp_path / "out")
    return tmp_path / "out"


@pytest.mark.parametrize("kind", ["lost", "flip", "cut", "error"])
def test_a_push_goes_on(kind: str, truth: Truth, out: Path) -> None:
    truth.set(Faults(seed=1, rate=0.3, kinds=(kind,)))
    dataprep.push(out, _ADDRESS)
    require(any(line[3] == kind for line in truth.log()), "nothing went wrong")
    truth.set(Faults())
    _require_all(truth, out)


def test_a_manifest_that_is_damaged_on_its_way_is_read_again(truth: Truth) -> None:
    data = random.Random(0).randbytes(10_000)
    truth.put("manifest.json", data)
    truth.set(Faults(seed=1, rate=0.5, kinds=("flip", "short")))
    assert [Store(_ADDRESS).read("manifest.json") for _ in range(8)] == [data] * 8
    assert any(line[3] == "flip" for line in truth.log())


@pytest.mark.parametrize("act", ["find", "read", "put"])
def test_credentials_that_expire_are_asked_for_anew(
    act: str, truth: Truth, monkeypatch: pytest.MonkeyPatch
) -> None:
    truth.put("a", b"1")
    place = Store(_ADDRESS)
    truth.set(Faults(expired=("somebody",)))

    def do() -> object:
        if act == "put":
            place.put("a", lambda: iter([b"1"]), hashlib.sha256(b"1").hexdigest())
            return None
        return getattr(place, act)("a")

    with pytest.raises(RemoteError, match="get new credentials: AWS_ACCESS_KEY_ID"):
        do()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "somebody-else")
    do()
    assert truth.get("a") == b"1"


def test_a_stalled_connection_is_left(truth: Truth, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(store._TIMEOUTS, "read_timeout", "1s")
    truth.put("a", bytes(1000))
    truth.set(Faults(seed=1, rate=0.5, kinds=("stall",), stalled=60))
    begun = time.monotonic()
    for _ in range(4):
        assert bytes(Store(_ADDRESS).read_range("a", 0, 1000)) == bytes(1000)
    assert any(line[3] == "stall" for line in truth.log())
    assert time.monotonic() - begun < 60


def test_a_schedule_is_known_by_its_number(truth: Truth) -> None:
    def met() -> list[tuple[str, int, int, str]]:
        truth.set(Faults(seed=7, rate=0.5, kinds=("busy", "error", "slow")))
        for _ in range(5):
            with ThreadPoolExecutor(4) as pool:
                list(pool.map(truth.get, "abcd"))
        return sorted(truth.log())

    assert met() == met()


@pytest.mark.thorough
@pytest.mark.parametrize("job", JOBS)
def test_schedules(job: str) -> None:
    pytest.importorskip("obstore", reason="needs obstore: make readers")
    command = [sys.executable, "-m", "tests.remote.test_faults", job, "--schedules", "10"]
    done = subprocess.run(
        [*command, "--processes", "2"], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr[-5000:]


if __name__ == "__main__":
    sys.exit(main())
