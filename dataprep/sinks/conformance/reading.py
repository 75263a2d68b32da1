"""Conformance: everything comes back, in any order, as often as one likes."""

# ruff: noqa: S101, D102 - these are tests: asserts, and names that say what they are

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from dataprep.errors import SinkError, UsageError
from dataprep.sinks.base import DatasetInfo, Sink
from dataprep.sinks.conformance.material import AWKWARD_KEYS, AWKWARD_VALUES, ODD_KEYS, Case
from dataprep.sinks.conformance.shards import expected, held, held_open, start, write_shard

_MANY = 300


class ReadingTests:
    """Readers."""

    def test_examples_come_back_in_order(self, variant: Sink, case: Case, tmp_path: Path) -> None:
        info, examples = case.info_for(variant), case.examples(variant, 24)
        shard = write_shard(variant, info, examples, tmp_path)
        with variant.reader(shard.paths, info) as reader:
            assert len(reader) == len(examples)
            assert list(reader) == expected(variant, examples)
            assert list(reader) == expected(variant, examples), "the second time"

    def test_examples_come_back_at_random(self, variant: Sink, case: Case, tmp_path: Path) -> None:
        info, examples = case.info_for(variant), case.examples(variant, 24)
        shard = write_shard(variant, info, examples, tmp_path)
        order = list(range(len(examples))) * 2
        random.Random(0).shuffle(order)  # noqa: S311
        wanted = expected(variant, examples)
        with variant.reader(shard.paths, info) as reader:
            assert [reader[number] for number in order] == [wanted[number] for number in order]

    def test_there_is_nothing_beyond_the_end(self, variant: Sink, tmp_path: Path) -> None:
        case = held(variant)
        info = case.info_for(variant)
        shard = write_shard(variant, info, case.examples(variant, 3), tmp_path)
        with variant.reader(shard.paths, info) as reader:
            for number in (3, 1000):
                with pytest.raises(IndexError):
                    reader[number]

    def test_keys_come_back(self, variant: Sink, case: Case, tmp_path: Path) -> None:
        info, examples = case.info_for(variant), case.examples(variant, 24)
        shard = write_shard(variant, info, examples, tmp_path)
        with variant.reader(shard.paths, info) as reader:
            assert list(reader.keys()) == [example.key for example in examples]

    def test_any_key_comes_back(self, variant: Sink, tmp_path: Path) -> None:
        case = held(variant)
        info = case.info_for(variant)
        some = case.examples(variant, len(ODD_KEYS))
        examples = [replace(it, key=key) for it, key in zip(some, ODD_KEYS, strict=True)]
        shard = write_shard(variant, info, examples, tmp_path)
        with variant.reader(shard.paths, info) as reader:
            assert list(reader) == expected(variant, examples)
            assert list(reader.keys()) == list(ODD_KEYS)
            assert [reader[number].key for number in range(len(ODD_KEYS))] == list(ODD_KEYS)

    @pytest.mark.parametrize("key", AWKWARD_KEYS)
    def test_an_awkward_key_comes_back_or_is_refused(
        self, variant: Sink, tmp_path: Path, key: str
    ) -> None:
        case = held(variant)
        info = case.info_for(variant)
        before, example, after = case.examples(variant, 3)
        examples = [before, replace(example, key=key), after]
        try:
            shard = write_shard(variant, info, examples, tmp_path)
        except SinkError as error:
            assert "\n" not in str(error)  # noqa: PT017 - it may well not be raised
            return
        with variant.reader(shard.paths, info) as reader:
            assert list(reader) == expected(variant, examples)
            assert list(reader.keys()) == [it.key for it in examples]

    @pytest.mark.parametrize("value", AWKWARD_VALUES, ids=lambda value: repr(value)[:30])
    def test_an_awkward_attribute_comes_back_or_is_refused(
        self, variant: Sink, tmp_path: Path, value: int | str
    ) -> None:
        case = held(variant)
        name = "value"
        info = case.info_for(variant)
        if variant.keeps_attributes:
            info = replace(info, attributes=((name, "int" if isinstance(value, int) else "text"),))
        before, example, after = (replace(it, attributes={}) for it in case.examples(variant, 3))
        examples = [before, replace(example, attributes={name: value}), after]
        try:
            shard = write_shard(variant, info, examples, tmp_path)
        except SinkError as error:
            assert "\n" not in str(error)  # noqa: PT017 - it may well not be raised
            return
        with variant.reader(shard.paths, info) as reader:
            assert list(reader) == expected(variant, examples)

    def test_an_empty_shard_is_empty(self, variant: Sink, case: Case, tmp_path: Path) -> None:
        info = case.info_for(variant)
        shard = write_shard(variant, info, [], tmp_path)
        with variant.reader(shard.paths, info) as reader:
            assert len(reader) == 0
            assert list(reader) == []
            assert list(reader.keys()) == []
            with pytest.raises(IndexError):
                reader[0]

    def test_many_examples_come_back(self, variant: Sink, tmp_path: Path) -> None:
        case = held(variant)
        info, examples = case.info_for(variant), case.examples(variant, _MANY)
        most = variant.most_images(info)
        examples = examples if most is None else examples[:most]
        shard = write_shard(variant, info, examples, tmp_path)
        wanted = expected(variant, examples)
        with variant.reader(shard.paths, info) as reader:
            assert len(reader) == len(examples)
            assert list(reader) == wanted
            assert reader[len(examples) - 1] == wanted[-1]
            assert list(reader.keys()) == [example.key for example in examples]

    def test_the_data_alone_give_the_images(
        self, variant: Sink, case: Case, tmp_path: Path
    ) -> None:
        info, examples = case.info_for(variant), case.examples(variant, 12)
        shard = write_shard(variant, info, examples, tmp_path)
        for sidecar in shard.paths[1:]:
            sidecar.unlink()
        for known in (info, DatasetInfo()):
            with variant.reader(shard.paths[:1], known) as reader:
                found = [(it.encoded, it.format, it.height, it.width) for it in reader]
                assert found == [(it.encoded, it.format, it.height, it.width) for it in examples]
                assert len(reader) == len(examples)
                assert reader[7].encoded == examples[7].encoded

    def test_reading_in_two_ways_at_once(self, variant: Sink, tmp_path: Path) -> None:
        case = held(variant)
        info, examples = case.info_for(variant), case.examples(variant, 12)
        shard = write_shard(variant, info, examples, tmp_path)
        wanted = expected(variant, examples)
        with variant.reader(shard.paths, info) as one, variant.reader(shard.paths, info) as other:
            for number, (found, again) in enumerate(zip(one, other, strict=True)):
                assert found == again == wanted[number]
                assert one[11 - number] == wanted[11 - number], "while iterating"

    def test_a_closed_reader_lets_go_of_its_files(self, variant: Sink, tmp_path: Path) -> None:
        case = held(variant)
        info = case.info_for(variant)
        shard = write_shard(variant, info, case.examples(variant, 3), tmp_path)
        reader = variant.reader(shard.paths, info)
        unfinished = [iter(reader), iter(reader.keys())]
        for iterator in unfinished:
            next(iterator)
        reader[1]
        reader.close()
        reader.close()
        assert held_open(tmp_path) == []
        variant.reader(shard.paths, info).close()
        assert held_open(tmp_path) == []

    def test_reading_changes_nothing(self, variant: Sink, tmp_path: Path) -> None:
        case = held(variant)
        info = case.info_for(variant)
        shard = write_shard(variant, info, case.examples(variant, 3), tmp_path / "out")
        before = sorted((tmp_path / "out").rglob("*"))
        digests = shard.digests
        with variant.reader(shard.paths, info) as reader:
            list(reader)
            during = sorted((tmp_path / "out").rglob("*"))
        assert sorted((tmp_path / "out").rglob("*")) == during == before
        assert shard.digests == digests

    def test_a_read_only_shard_can_be_read(self, variant: Sink, tmp_path: Path) -> None:
        case = held(variant)
        info, examples = case.info_for(variant), case.examples(variant, 3)
        shard = write_shard(variant, info, examples, tmp_path / "out")
        directories = {path.parent for path in shard.paths}
        for path in (*shard.paths, *directories):
            path.chmod(0o555)
        try:
            with variant.reader(shard.paths, info) as reader:
                assert list(reader) == expected(variant, examples)
        finally:
            for path in directories:
                path.chmod(0o755)

    def test_the_formats_own_reader_agrees(self, variant: Sink, case: Case, tmp_path: Path) -> None:
        info, examples = case.info_for(variant), case.examples(variant, 12)
        started = start(variant, info, tmp_path)
        for example in examples:
            started.writer.write(example)
        started.writer.close()
        paths = started.publish()
        if not variant.reference:
            with pytest.raises(UsageError):
                variant.reference_records(paths, info)
            return
        try:
            found = list(variant.reference_records(paths, info))
        except UsageError as error:
            pytest.skip(str(error))
        assert found == [(example.encoded, example.labels) for example in examples]
