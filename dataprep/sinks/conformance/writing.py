"""Conformance: files are complete, described rightly, the same every time, and nothing else."""

# ruff: noqa: S101, D102 - these are tests: asserts, and names that say what they are

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from dataprep.errors import DataprepError, UsageError
from dataprep.sinks.base import DatasetInfo, Sink
from dataprep.sinks.conformance.material import CASES, Case
from dataprep.sinks.conformance.process import in_another_process
from dataprep.sinks.conformance.shards import (
    all_held,
    files_below,
    held,
    held_open,
    sha256,
    start,
    write_shard,
)
from dataprep.sinks.example import Example

_PATIENCE_SECONDS = 60


class WritingTests:
    """Writers."""

    def test_every_kind_of_data_set_is_held_with_some_options(
        self, variants: Sequence[Sink]
    ) -> None:
        for case in CASES:
            refusals = []
            for sink in variants:
                try:
                    sink.check(case.info_for(sink))
                except UsageError as error:
                    refusals.append(str(error))
            assert len(refusals) < len(variants), f"{case.name}: {refusals}"

    def test_only_the_declared_files_appear(
        self, variant: Sink, case: Case, tmp_path: Path
    ) -> None:
        started = start(variant, case.info_for(variant), tmp_path)
        for example in case.examples(variant, 5):
            started.writer.write(example)
        started.writer.close()
        assert files_below(tmp_path) == sorted(started.temporary)

    def test_close_describes_the_files(self, variant: Sink, case: Case, tmp_path: Path) -> None:
        shard = write_shard(variant, case.info_for(variant), case.examples(variant, 5), tmp_path)
        assert [it.bytes for it in shard.written] == [it.stat().st_size for it in shard.paths]
        assert [it.sha256 for it in shard.written] == shard.digests

    def test_equal_examples_give_equal_bytes(
        self, variant: Sink, case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        info, examples = case.info_for(variant), case.examples(variant, 7)
        first = write_shard(variant, info, examples, tmp_path / "a")
        elsewhere = tmp_path / "quite" / "elsewhere"
        elsewhere.mkdir(parents=True)
        monkeypatch.chdir(elsewhere)
        again = type(variant)(**dict(variant.config()))
        second = write_shard(again, info, examples, elsewhere, tag="ffffffff")
        assert second.digests == first.digests

    def test_bytes_do_not_say_which_shard_they_are_nor_where(
        self, variant: Sink, tmp_path: Path
    ) -> None:
        case = held(variant)
        info, examples = case.info_for(variant), case.examples(variant, 3)
        root = tmp_path / "telltale-directory"
        shard = write_shard(variant, info, examples, root, tag="telltale")
        for path in shard.paths:
            content = path.read_bytes()
            assert b"telltale" not in content, path
            assert b".partial" not in content, path

    def test_another_process_writes_equal_bytes(self, variant: Sink, tmp_path: Path) -> None:
        orders: list[tuple[DatasetInfo, list[Example], Path]] = []
        digests = []
        for case in all_held(variant):
            info, examples = case.info_for(variant), case.examples(variant, 7)
            digests.append(write_shard(variant, info, examples, tmp_path / case.name).digests)
            orders.append((info, examples, tmp_path / "elsewhere" / case.name))
        found = in_another_process(_written_digests, variant, orders, directory=tmp_path)
        assert found == digests

    def test_threads_write_side_by_side(self, variant: Sink, tmp_path: Path) -> None:
        case = held(variant)
        info = case.info_for(variant)
        batches = [case.examples(variant, 9), case.examples(variant, 9, first=100)]
        alone = [
            write_shard(variant, info, batch, tmp_path / f"alone-{number}").digests
            for number, batch in enumerate(batches)
        ]
        step = threading.Barrier(len(batches), timeout=_PATIENCE_SECONDS)

        def write(number: int) -> list[str]:
            started = start(variant, info, tmp_path / f"together-{number}")
            for example in batches[number]:
                step.wait()
                started.writer.write(example)
            step.wait()
            started.writer.close()
            return [sha256(path) for path in started.publish()]

        with ThreadPoolExecutor(len(batches)) as pool:
            assert list(pool.map(write, range(len(batches)))) == alone

    def test_order_is_kept_in_the_bytes(self, variant: Sink, tmp_path: Path) -> None:
        case = held(variant)
        info, examples = case.info_for(variant), case.examples(variant, 4)
        forth = write_shard(variant, info, examples, tmp_path / "forth")
        back = write_shard(variant, info, examples[::-1], tmp_path / "back")
        assert forth.digests[0] != back.digests[0]

    @pytest.mark.parametrize("written", [0, 3])
    def test_a_shard_can_be_abandoned(self, variant: Sink, tmp_path: Path, written: int) -> None:
        case = held(variant)
        started = start(variant, case.info_for(variant), tmp_path / "out")
        for example in case.examples(variant, written):
            started.writer.write(example)
        started.writer.abandon()
        started.writer.abandon()
        assert held_open(tmp_path) == []
        assert set(files_below(tmp_path / "out")) <= set(started.temporary)

    def test_abandoning_a_finished_shard_changes_nothing(
        self, variant: Sink, tmp_path: Path
    ) -> None:
        case = held(variant)
        started = start(variant, case.info_for(variant), tmp_path / "out")
        for example in case.examples(variant, 3):
            started.writer.write(example)
        digests = [written.sha256 for written in started.writer.close()]
        assert held_open(tmp_path) == [], "closed files are still open"
        started.writer.abandon()
        assert [sha256(path) for path in started.temporary] == digests

    def test_what_it_cannot_hold_is_refused(self, variant: Sink, tmp_path: Path) -> None:
        case = held(variant)
        info = case.info_for(variant)
        (good,) = case.examples(variant, 1)
        for number, bad in enumerate(_unfit(variant, good, info)):
            started = start(variant, info, tmp_path / str(number))
            with pytest.raises(DataprepError) as caught:
                started.writer.write(bad)
            assert "\n" not in str(caught.value)
            started.writer.abandon()
        assert held_open(tmp_path) == []


def _unfit(sink: Sink, good: Example, info: DatasetInfo) -> list[Example]:
    if not sink.pixels:
        pixels = bytes(good.height * good.width * info.channels)
        return [replace(good, format="RAW", encoded=pixels)]
    return [
        replace(good, encoded=good.encoded[:-1]),
        replace(good, encoded=good.encoded + b"\0"),
        replace(good, height=good.height * 2, encoded=good.encoded * 2),
        replace(good, height=good.width, width=good.height),
        replace(good, format="JPEG", encoded=b"\xff\xd8\xff\xd9"),
    ]


def _written_digests(
    sink: Sink, orders: Sequence[tuple[DatasetInfo, Sequence[Example], Path]]
) -> list[list[str]]:
    return [write_shard(sink, *order, tag="0000cafe").digests for order in orders]
