"""Bugs that are planted in the program: the sweeps over crash states find every one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from dataprep.formats import hashed_file
from dataprep.jobs.output import commit, workspace
from dataprep.jobs.output.lock import Lease
from dataprep.jobs.preparing import prepare
from dataprep.jobs.running import clearing, engine, identity, journal, seal, shard
from dataprep.staging import copying, writing
from dataprep.staging.directory import StageDirectory
from dataprep.system import durable_files
from dataprep.system.durable_files import sync_directory, write_durably
from dataprep.system.state_files import write_state
from dataprep.tables import sealing
from tests.crash.scenarios import SCENARIOS, sweep
from tests.crash.states import spread

Plant = Callable[[pytest.MonkeyPatch], object]


def nothing(*_: object, **__: object) -> None:
    """In the place of what must be done."""


def instead(module: ModuleType | type, name: str, by: Callable[..., Any]) -> Plant:
    return lambda patch: patch.setattr(module, name, by)


def unflushed(module: ModuleType) -> Plant:
    """Its calls of os.fsync do nothing; those of others do."""

    class System:
        fsync = staticmethod(nothing)

        def __getattr__(self, name: str) -> Any:
            return getattr(os, name)

    return instead(module, "os", System())  # type: ignore[arg-type]


def in_place(path: Path, data: bytes, **_: object) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def no_index(directory: Path) -> None:
    if directory.name != "index":
        sync_directory(directory)


def deleted(paths: Sequence[Path], _: Lease) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def recorded_first(patch: pytest.MonkeyPatch) -> None:
    def publish_once(where: Any, record: Any, temporaries: Any, finals: Any) -> None:
        commit.commit(where, record)
        commit.publish(temporaries, finals)

    patch.setattr(shard, "publish_once", publish_once)
    patch.setattr(commit, "_is_there", lambda *_: True)


def sealed_first(patch: pytest.MonkeyPatch) -> None:
    """The data of a shard gets its name after the seal."""
    late: list[tuple[Path, Path]] = []

    def publish(temporaries: Sequence[Path], finals: Sequence[Path]) -> None:
        late.append((temporaries[0], finals[0]))
        commit_publish(temporaries[1:], finals[1:])

    def seal_early(*arguments: Any, **options: Any) -> Any:
        manifest = run_seal(*arguments, **options)
        for temporary, final in late:
            temporary.replace(final)
        return manifest

    commit_publish, run_seal = commit.publish, seal.seal
    patch.setattr(commit, "publish", publish)
    patch.setattr(commit, "_is_there", lambda *_: True)
    patch.setattr(prepare, "seal", seal_early)


def made(directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)


def torn(path: Path, state: Any, **_: object) -> None:
    write_state(path, state)


MUTANTS: dict[str, tuple[str, Plant]] = {
    "a shard is not flushed": ("tfrecord-1", unflushed(hashed_file)),
    "what a library wrote is not flushed": ("lmdb-1", unflushed(hashed_file)),
    "the table of records is not flushed": ("tfrecord-1", unflushed(sealing)),
    "the manifest is not flushed": (
        "tfrecord-1",
        instead(seal, "write_durably", partial(write_durably, flush=False)),
    ),
    "the manifest is written in place": ("tfrecord-1", instead(seal, "write_durably", in_place)),
    "no directory is flushed before the seal": (
        "tfrecord-1",
        instead(seal, "sync_directory", nothing),
    ),
    "a directory above is not flushed": ("prepare", instead(seal, "sync_directory", no_index)),
    "the manifest comes before the last shard": ("tfrecord-2", sealed_first),
    "a shard is recorded before its renaming": ("tfrecord-1", recorded_first),
    "records are believed without their shards": (
        "tfrecord-2",
        instead(commit, "_is_there", lambda *_: True),
    ),
    "the job is not flushed": ("prepare", instead(identity, "write_state", torn)),
    "the job's directory is not flushed": ("prepare", instead(identity, "sync_directory", nothing)),
    "the output directory is not flushed": ("prepare", instead(workspace, "make_durably", made)),
    "temporary files are not swept": (
        "tfrecord-1",
        instead(engine, "remove_partial_files", nothing),
    ),
    "what is overwritten may come back": ("overwrite", instead(clearing, "_remove", deleted)),
    "what is overwritten is sealed meanwhile": (
        "overwrite",
        instead(clearing, "_planned", lambda _: []),
    ),
    "the journal is not flushed": ("append", instead(journal, "write_state", torn)),
    "the journal's directory is not flushed": (
        "append",
        instead(journal, "sync_directory", nothing),
    ),
    "the journal is forgotten": ("append", instead(engine, "finish_merge", nothing)),
    "copies are not flushed": ("stage", unflushed(writing)),
    "small copies are not flushed": (
        "stage-together",
        instead(copying, "sync_file_system", nothing),
    ),
    "the old sentinel stays": (
        "stage-overwritten",
        instead(StageDirectory, "remove_private", nothing),
    ),
    "a report is written in place": ("report", instead(durable_files, "write_durably", in_place)),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_bug_is_found(place: Path, name: str) -> None:
    scenario, plant = MUTANTS[name]

    @contextmanager
    def planted() -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            plant(patch)
            yield

    found = sweep(SCENARIOS[scenario](place), spread, mutant=planted, most=1)
    assert found.problems, f"{found.states} states, and nothing is wrong with any"
