"""Is a page of a very large set there at once, and are 200 thumbnails of photographs?

``dataprep browse`` on 1,280,000 records: a set made of few photographs, as often as needed, so that
every record can be shown. A browser's part is played by six connections.
"""

from __future__ import annotations

import http.client
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import msgspec
import pyarrow as pa
from pyarrow import parquet

from benchmarks import raw_sets
from benchmarks.measure import CommandFailedError, Setting, run
from benchmarks.tables import Row, Target, figure
from dataprep.sealed.set import SealedSet
from dataprep.system.state_files import encode, file_sha256, hashed
from dataprep.tables.arrow import blocks
from dataprep.tables.records import parquet_writer
from dataprep_schemas.manifest import File, RecordsFile, Shard

_PHOTOGRAPHS = 400
_TIMES = 3200
_CONNECTIONS = 6
_GROUP = 1 << 16  # rows, as in every table of records
_MIB = 1 << 20
_PAGES = {
    "page 1": "/",
    "page 6,000": "/?page=6000",
    "width > 600": "/?where=width%20%3E%20600",
    "width > 600, page 2": "/?where=width%20%3E%20600&page=2",
    "by bytes": "/?sort=bytes&down=1",
    "by bytes, page 2": "/?sort=bytes&down=1&page=2",
}


@dataclass
class _Times:
    """Seconds, one of each round."""

    start: list[float] = field(default_factory=list)
    pages: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in _PAGES})
    cold: list[float] = field(default_factory=list)
    again: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)


def measure(setting: Setting) -> list[Row]:
    """Pages and thumbnails, as often as asked."""
    times = setting.size(_TIMES, 4)
    out = raw_sets.made(setting, f"browse-{times}", lambda at: _fill(setting, at, times))
    found = _Times()
    for number in range(setting.repeat):
        setting.say(f"browse: round {number + 1}")
        _round(out, setting.work / "caches", found)
    second = Target("<=", 1.5, " s")
    what = f"{times * _PHOTOGRAPHS:,} records"
    return [
        figure(f"{what}: from the command to its address", found.start, "s"),
        *(
            figure(f"{what}: {name}", seconds, "s", second if name == "page 1" else None)
            for name, seconds in found.pages.items()
        ),
        figure("200 thumbnails, cold", found.cold, "s", second),
        figure("200 thumbnails, again", found.again, "s", Target("<=", 0.1, " s")),
        figure("memory", found.memory, "MiB", Target("<=", 400e6 / _MIB, " MiB")),
    ]


def _fill(setting: Setting, out: Path, times: int) -> None:
    """A set of the same shard many times; its first part has the keys of the shard."""
    small = out.with_name("browse-one")
    shutil.rmtree(small, ignore_errors=True)
    raw = raw_sets.tree(setting, _PHOTOGRAPHS)
    run(
        [
            sys.executable,
            "-m",
            "dataprep",
            "folder",
            "--raw",
            raw,
            "--out",
            small,
            "--num_shards",
            "1",
        ]
    )
    sealed = SealedSet.read(small)
    ((name, split),) = sealed.manifest.splits.items()
    shards = []
    for number in range(times):
        files = []
        for file in split.shards[0].files:
            place = PurePosixPath(file.path)
            path = f"{place.parent}/{number:04d}/{place.name}"
            (out / path).parent.mkdir(parents=True, exist_ok=True)
            os.link(small / file.path, out / path)
            files.append(File(path, file.bytes, file.sha256))
        shards.append(Shard(split.shards[0].records, tuple(files)))
    rows = _write_table(small, out, times)
    size, records = split.bytes * times, split.records * times
    more = msgspec.structs.replace(
        split, shards=tuple(shards), records=records, images_found=records, bytes=size
    )
    table = out / "records.parquet"
    manifest = msgspec.structs.replace(
        sealed.manifest,
        splits={name: more},
        num_shards={name: times},
        totals=msgspec.structs.replace(sealed.manifest.totals, records=records),
        records_table=RecordsFile(
            "records.parquet", table.stat().st_size, file_sha256(table), rows
        ),
    )
    (out / "manifest.json").write_bytes(encode(hashed(manifest)))


def _write_table(small: Path, out: Path, times: int) -> int:
    table = parquet.read_table(small / "records.parquet")

    def parts() -> Iterator[pa.Table]:
        yield table
        keys = table.column("key").to_pylist()
        for number in range(1, times):
            shard = pa.array([number] * len(table), pa.int32())
            own = pa.array([f"{number:04d}/{key}" for key in keys])
            part = table.set_column(table.schema.get_field_index("shard"), "shard", shard)
            yield part.set_column(table.schema.get_field_index("key"), "key", own)

    with open(out / "records.parquet", "xb") as file, parquet_writer(file, table.schema) as writer:
        for part in blocks(parts(), _GROUP):
            writer.write_table(part.cast(table.schema), row_group_size=_GROUP)
    return len(table) * times


def _round(out: Path, caches: Path, found: _Times) -> None:
    shutil.rmtree(caches, ignore_errors=True)
    command = [sys.executable, "-m", "dataprep", "browse", str(out)]
    words = ["--decisions", str(caches.with_name("marks.csv")), "--who", "mm"]
    environment = {**os.environ, "XDG_CACHE_HOME": str(caches), "PYTHONUNBUFFERED": "1"}
    begun = time.perf_counter()
    process = subprocess.Popen(
        [*command, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
    )
    try:
        assert process.stdout is not None
        said = re.search(
            r"http://(\S+)(/\?\S+)", process.stdout.readline() + process.stdout.readline()
        )
        if said is None:
            raise CommandFailedError("dataprep browse did not tell its address")
        found.start.append(time.perf_counter() - begun)
        person = _Person(said[1], said[2])
        for name, path in _PAGES.items():
            seconds, page = person.timed(path)
            found.pages[name].append(seconds)
            if name == "page 1":
                addresses = re.findall(r'src="(/small/[^"]+)"', page)
        found.cold.append(person.all(addresses))
        found.again.append(person.all(addresses))
        status = Path(f"/proc/{process.pid}/status").read_text()
        peak = re.search(r"VmHWM:\s+(\d+) kB", status)
        found.memory.append(int(peak[1]) * 1024 / _MIB if peak else float("nan"))
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


class _Person:
    """A browser's connections."""

    def __init__(self, host: str, first: str) -> None:
        self._connections = [
            http.client.HTTPConnection(host, timeout=600) for _ in range(_CONNECTIONS)
        ]
        connection = self._connections[0]
        connection.request("GET", first)
        response = connection.getresponse()
        response.read()
        self._headers = {"Cookie": (response.headers["Set-Cookie"] or "").partition(";")[0]}

    def timed(self, path: str) -> tuple[float, str]:
        begun = time.perf_counter()
        data = self._get(self._connections[0], path)
        return time.perf_counter() - begun, data.decode()

    def all(self, paths: Sequence[str]) -> float:
        begun = time.perf_counter()
        with ThreadPoolExecutor(_CONNECTIONS) as pool:
            shares = [paths[place::_CONNECTIONS] for place in range(_CONNECTIONS)]
            for done in [*map(pool.submit, [self._some] * _CONNECTIONS, self._connections, shares)]:
                done.result()
        return time.perf_counter() - begun

    def _some(self, connection: http.client.HTTPConnection, paths: Sequence[str]) -> None:
        for path in paths:
            self._get(connection, path)

    def _get(self, connection: http.client.HTTPConnection, path: str) -> bytes:
        connection.request("GET", path, headers=self._headers)
        response = connection.getresponse()
        data = response.read()
        if response.status != 200:
            raise CommandFailedError(f"{path}: {response.status}", data.decode()[:500])
        return data
