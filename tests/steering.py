"""A sink that does what a test says while it writes: waits, fails, or ends its process."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from dataprep import plugins
from dataprep_pipelines.tasks import programs
from tests.conftest import Made, hashes, leftovers

# TFRecord, but before a record of a shard, or before it is closed, it may do what
# OUT.steer/SHARD.json says, so many times; and OUT.steer/made tells which process finished which
# shard.
_SINK = """
import builtins
import json
import os
import signal
import time

from dataprep import errors
from dataprep.formats.tfrecord import TFRecordSink


class Writer:
    def __init__(self, writer, path, shard):
        self._writer, self._shard, self._written = writer, shard, 0
        self._steer = path.parents[1].with_name(path.parents[1].name + ".steer")
        try:
            self._order = json.loads((self._steer / (shard + ".json")).read_bytes())
        except FileNotFoundError:
            self._order = None

    def write(self, example):
        if self._order and self._written == self._order["record"]:
            self._obey()
        self._written += 1
        self._writer.write(example)

    def close(self):
        if self._order and self._order["record"] == "close":
            self._obey()
        if self._steer.is_dir():
            (self._steer / "made").mkdir(exist_ok=True)
            (self._steer / "made" / (self._shard + "." + str(os.getpid()))).touch()
        return self._writer.close()

    def abandon(self):
        self._writer.abandon()

    def _obey(self):
        do = self._order["do"]
        for number in range(self._order["times"]):
            try:
                with open(self._steer / f"{self._shard}.{number}.obeyed", "x") as file:
                    file.write(str(os.getpid()))
            except FileExistsError:
                continue
            break
        else:
            return
        if do.startswith("SIG"):
            os.kill(os.getpid(), getattr(signal, do))
        elif do == "wait":
            while not (self._steer / "go").exists():
                time.sleep(0.01)
        else:
            raise (getattr(errors, do, None) or getattr(builtins, do))("the sink's own words")


class SteeredSink(TFRecordSink):
    name = "steered"

    def open(self, paths, info):
        return Writer(super().open(paths, info), paths[0], paths[0].name.split(".")[1])
"""


def install_sink(site: Path) -> Path:
    """Put the sink into a directory of packages, as a third party would."""
    add_distribution(site, "steered-sink", "1", "[dataprep.sinks]\nsteered = steered:SteeredSink\n")
    (site / "steered.py").write_text(_SINK)
    return site


@contextmanager
def sink_in(site: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The sink can be found here, and by processes that are started here."""
    monkeypatch.syspath_prepend(site)
    monkeypatch.setenv("PYTHONPATH", str(site), prepend=os.pathsep)
    caches = (plugins._sink, programs)
    for cached in caches:
        cached.cache_clear()
    yield
    for cached in caches:
        cached.cache_clear()


def add_distribution(site: Path, name: str, version: str, entry_points: str = "") -> None:
    """Make a directory of packages claim to have one."""
    info = site / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}")
    (info / "entry_points.txt").write_text(entry_points)


@dataclass(frozen=True)
class Steer:
    """Tells workers what to do while they write shards into one output directory."""

    path: Path

    @classmethod
    def of(cls, out: Path) -> Steer:
        path = out.with_name(out.name + ".steer")
        path.mkdir()
        return cls(path)

    def order(self, shard: str, do: str, *, record: int | str = 1, times: int = 1) -> None:
        """A signal's name, ``wait`` until `go`, or the name of an error of dataprep's or Python's.

        Args:
            record: before the one of this number, or ``close``.
        """
        order = {"do": do, "record": record, "times": times}
        (self.path / f"{shard}.json").write_text(json.dumps(order))

    def go(self) -> None:
        """End all waiting."""
        (self.path / "go").touch()

    def obeyed(self, shard: str) -> list[int]:
        """The processes that did what they were told about a shard, in that order."""
        found = sorted(self.path.glob(f"{shard}.*.obeyed"))
        return [int(text) for path in found if (text := path.read_text())]

    def made(self) -> dict[str, set[int]]:
        """The processes that wrote each shard to its end."""
        found: dict[str, set[int]] = {}
        for path in (self.path / "made").iterdir():
            shard, process = path.name.split(".")
            found.setdefault(shard, set()).add(int(process))
        return found


def shards(files: Mapping[str, str]) -> dict[str, str]:
    """Without the manifest, which names the format."""
    return {name: digest for name, digest in files.items() if name != "manifest.json"}


def check_same(made: Made, out: Path) -> None:
    """The bytes are those of the undisturbed run, and nothing else is there."""
    assert shards(hashes(out)) == shards(made.files)
    assert (out / "manifest.json").exists()
    assert remains(out) == []


def remains(out: Path) -> list[str]:
    """What no run should leave: temporary files, the lock, tasks, failures."""
    told = [*out.rglob("task-*"), *out.rglob("failure-*")]
    return leftovers(out) + [path.relative_to(out).as_posix() for path in told]
