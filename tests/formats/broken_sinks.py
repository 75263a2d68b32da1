"""The documented sink, broken in one way each, and the test of `SinkTests` that must tell."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import pytest

from dataprep.errors import UsageError
from dataprep.formats import DatasetInfo, Example, Sink
from dataprep.formats.hashed_file import write_file

if TYPE_CHECKING:  # what docs/plugins.md derives them from
    from dataprep.formats import PlainSink as JsonSink
    from dataprep.formats import StreamReader as JsonReader
    from dataprep.formats import StreamWriter

    class JsonWriter(StreamWriter):
        def append(self, example: Example) -> None: ...

else:
    from tests.formats.documented_sink import JsonReader, JsonSink, JsonWriter


class ShiftsLabels(JsonSink):
    class Reader(JsonReader):
        def read(self, number: int) -> Example:
            example = super().read(number)
            return replace(example, labels=tuple(label + 1 for label in example.labels))


class CleansKeys(JsonSink):
    class Reader(JsonReader):
        def read(self, number: int) -> Example:
            example = super().read(number)
            return replace(example, key=example.key.replace("\n", " "))


class LosesAttributes(JsonSink):
    keeps = ("int", "text")


class LeaksReader(JsonSink):
    class Reader(JsonReader):
        def close(self) -> None:
            pass


class RefusesNothing(JsonSink):
    class Reader(JsonReader):
        def __iter__(self) -> Iterator[Example]:
            yield self[0]
            yield from list(super().__iter__())[1:]


class TrustsEverything(JsonSink):
    class Reader(JsonReader):
        def __getitem__(self, number: int) -> Example:
            return self.read(number)


class StoresProcess(JsonSink):
    class Writer(JsonWriter):
        def append(self, example: Example) -> None:
            super().append(replace(example, format=f"{example.format} {os.getpid()}"))


class StoresMonth(JsonSink):
    class Writer(JsonWriter):
        def append(self, example: Example) -> None:
            super().append(replace(example, format=f"{datetime.now():%Y-%m}"))  # noqa: DTZ005


class StoresYear(JsonSink):
    class Writer(JsonWriter):
        def append(self, example: Example) -> None:
            super().append(replace(example, format=str(time.localtime()[0])))


class ListsClassesOfSet(JsonSink):
    def split_paths(self, split: str, count: int, layout: str) -> Sequence[PurePosixPath]:
        return [PurePosixPath(f"{split}.classes.txt")]

    def finish_split(self, paths: Sequence[Path], info: Any, shards: Any) -> Any:
        return [write_file(paths[0], repr([*{name for name, _ in info.classes}]).encode())]


class FlushesNothing(JsonSink):
    class Writer(JsonWriter):
        def close(self) -> Any:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(os, "fsync", lambda _: None)
                return super().close()


class ForgetsDot(JsonSink):
    suffixes = ("jsonl",)


class KnowsPath(JsonWriter):
    def __init__(self, paths: Sequence[Path], info: DatasetInfo) -> None:
        super().__init__(paths, info)
        self.path = paths[0]


class StoresTemporaryName(JsonSink):
    class Writer(KnowsPath):
        def append(self, example: Example) -> None:
            name = str(self.path).rsplit("telltale", 1)[-1]
            super().append(replace(example, format=name))


class LeavesLock(JsonSink):
    class Writer(KnowsPath):
        def close(self) -> Any:
            self.path.with_name(".lock").touch()
            return super().close()


class LiesAboutSize(JsonSink):
    class Writer(JsonWriter):
        def close(self) -> Any:
            return [replace(file, bytes=file.bytes + 1) for file in super().close()]


class KeepsFilesOpen(JsonSink):
    class Writer(JsonWriter):
        def abandon(self) -> None:
            pass


class NoSummary(JsonSink):
    summary = ""


class OnePlaceForAll(JsonSink):
    def paths(self, shard: Any, layout: str) -> Sequence[PurePosixPath]:
        return [PurePosixPath(f"{shard.split}.jsonl")]


class HidesShards(JsonSink):
    def paths(self, shard: Any, layout: str) -> Sequence[PurePosixPath]:
        return [PurePosixPath(".data", f"{shard}.jsonl")]


class TakesOurNames(JsonSink):
    def split_paths(self, split: str, count: int, layout: str) -> Sequence[PurePosixPath]:
        return [PurePosixPath(".dataprep", split)]


class RefusesSeveralLabels(JsonSink):
    def check(self, info: DatasetInfo) -> None:
        if info.multilabel:
            raise UsageError("one label is enough for anybody")


class ListsAbsolutePaths(JsonSink):
    def split_paths(self, split: str, count: int, layout: str) -> Sequence[PurePosixPath]:
        return [PurePosixPath(f"{split}.txt")]

    def finish_split(self, paths: Sequence[Path], info: Any, shards: Any) -> Any:
        return [write_file(paths[0], b"".join(bytes(it.paths[0]) + b"\n" for it in shards))]


class DisagreesWithItself(JsonSink):
    reference = "another reader"

    def reference_records(self, paths: Sequence[Path], info: DatasetInfo) -> Iterator[Any]:
        with self.reader(paths, info) as reader:
            for example in reader:
                yield example.encoded, (*example.labels, 1)


BROKEN: list[tuple[type[Sink], str]] = [
    (ShiftsLabels, "test_examples_come_back"),
    (LosesAttributes, "test_examples_come_back"),
    (LeaksReader, "test_examples_come_back"),
    (CleansKeys, "test_awkward_texts_come_back_or_are_refused"),
    (RefusesNothing, "test_no_examples_and_lost_sidecars"),
    (StoresProcess, "test_equal_examples_give_equal_bytes"),
    (StoresMonth, "test_equal_examples_give_equal_bytes"),
    (StoresYear, "test_equal_examples_give_equal_bytes"),
    (ListsClassesOfSet, "test_equal_examples_give_equal_bytes"),
    (FlushesNothing, "test_finished_files_are_on_the_disk"),
    (ForgetsDot, "test_it_describes_itself"),
    (StoresTemporaryName, "test_a_split_can_be_finished_and_moved"),
    (LeavesLock, "test_a_split_can_be_finished_and_moved"),
    (LiesAboutSize, "test_examples_come_back"),
    (KeepsFilesOpen, "test_a_shard_can_be_abandoned"),
    (TrustsEverything, "test_damage_is_one_line"),
    (NoSummary, "test_it_describes_itself"),
    (HidesShards, "test_files_have_places_of_their_own"),
    (OnePlaceForAll, "test_files_have_places_of_their_own"),
    (TakesOurNames, "test_files_have_places_of_their_own"),
    (RefusesSeveralLabels, "test_it_describes_itself"),
    (ListsAbsolutePaths, "test_a_split_can_be_finished_and_moved"),
    (DisagreesWithItself, "test_the_formats_own_reader_agrees"),
]
