"""One sequence for any number of ranks, stopped anywhere and gone on with by any other number."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dataprep
from dataprep.errors import UsageError
from dataprep.staging.plan import Share
from dataprep.training.order import Order, Shuffled
from dataprep.training.sampler import Leftover, Numbers, Sampler
from tests.conftest import Made
from tests.sealed.test_part import staged

COUNT = 61


def ranks(
    world_size: int, batch_size: int, uneven: Leftover = "drop", order: Order | None = None
) -> list[Sampler]:
    return [
        Sampler(
            order or Shuffled(COUNT, 3, {"seed": 3}),
            batch_size,
            rank=rank,
            world_size=world_size,
            uneven=uneven,
            title="train",
            identity={"split": "train", "manifest": "abc"},
            shared=False,
        )
        for rank in range(world_size)
    ]


def steps(samplers: list[Sampler], most: int = 10**9) -> tuple[list[int], list[dict[str, Any]]]:
    """What all ranks receive in some steps, in global order; and the states they are left in."""
    sequence: list[int] = []
    loops = [sampler.track(sampler) for sampler in samplers]
    for _ in range(most):
        batches = [next(loop, None) for loop in loops]
        if batches[0] is None:
            assert batches == [None] * len(batches), "ranks differ in their steps"
            break
        assert len({len(batch or []) for batch in batches}) == 1
        for together in zip(*(batch or [] for batch in batches), strict=True):
            sequence += together
    states = [sampler.state_dict() for sampler in samplers]
    for loop in loops:
        loop.close()  # type: ignore[attr-defined]
    return sequence, states


def the_epoch(epoch: int) -> list[int]:
    (alone,) = ranks(1, 1)
    alone.set_epoch(epoch)
    return [number for batch in alone for number in batch]


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 9), st.integers(1, 6), st.integers(1, 5)), min_size=1, max_size=7
    )
)
def test_however_often_the_number_of_ranks_changes_the_sequence_is_one(
    runs: list[tuple[int, int, int]],
) -> None:
    state, found, left_out = None, list[list[int]](), 0
    for world_size, batch_size, most in runs:
        samplers = ranks(world_size, batch_size)
        if state is not None:
            for sampler in samplers:
                sampler.load_state_dict(json.loads(json.dumps(state)))
        epoch, before = samplers[0].epoch, samplers[0].consumed
        sequence, states = steps(samplers, most)
        assert all(one == states[0] for one in states), "the state is the same on every rank"
        state = states[0]
        assert sequence == the_epoch(epoch)[before : before + len(sequence)]
        if state["epoch"] > epoch:
            left_out = COUNT - before - len(sequence)
            assert left_out < world_size * batch_size
        else:
            assert state["consumed"] == before + len(sequence)
        found.append(sequence)


@pytest.mark.parametrize(("world_size", "batch_size"), [(1, 8), (2, 4), (8, 1), (3, 7), (13, 5)])
def test_repeating_gives_every_sample_and_as_few_again_as_there_must_be(
    world_size: int, batch_size: int
) -> None:
    sequence, states = steps(ranks(world_size, batch_size, "repeat"))
    again = -COUNT % world_size
    whole = the_epoch(0)
    assert sequence == whole + whole[:again]
    assert (states[0]["epoch"], states[0]["consumed"]) == (1, 0)


def test_a_length_is_that_of_a_whole_epoch() -> None:
    for uneven, batches in (("drop", 7), ("repeat", 8)):
        (sampler,) = ranks(1, 8, uneven)  # type: ignore[arg-type]
        assert len(sampler) == batches == len(list(sampler))
        assert len(list(sampler.track(sampler))) == batches


def test_passes_are_epochs_and_the_epoch_can_be_set() -> None:
    (sampler,) = ranks(1, 8)
    assert [number for batch in sampler for number in batch] == the_epoch(0)[:56]
    assert [number for batch in sampler for number in batch] == the_epoch(1)[:56]
    assert sampler.epoch == 2
    sampler.set_epoch(5)
    loop = sampler.track(sampler)
    assert next(loop) == the_epoch(5)[:8]
    loop.close()  # type: ignore[attr-defined]
    sampler.set_epoch(5)  # as a training loop says it that was resumed there
    assert next(iter(sampler)) == the_epoch(5)[8:16]
    sampler.set_epoch(6)
    assert next(iter(sampler)) == the_epoch(6)[:8]


def test_a_loader_may_not_set_an_epoch_meanwhile() -> None:
    (sampler,) = ranks(1, 8)
    sampler.set_epoch(3)

    class Prepared:  # as Accelerate's, whose count of epochs begins at 0 in every process
        def __iter__(self) -> Iterator[Numbers]:
            sampler.set_epoch(0)
            return iter(sampler)

    assert next(sampler.track(Prepared())) == the_epoch(3)[:8]


def test_batches_say_where_they_are_also_in_another_process() -> None:
    first, second = ranks(2, 4)
    next(iter(first))
    for batch in second:
        there = pickle.loads(pickle.dumps(batch))
        assert (there, there.epoch, there.seed) == (batch, 0, 3)
        assert [the_epoch(0)[place] for place in there.positions] == there
    batch = list(first)[1]
    assert batch.positions == range(8, 16, 2)


def test_what_nobody_counted_is_not_said() -> None:
    (sampler,) = ranks(1, 8)
    assert sampler.state_dict()["consumed"] == 0
    next(iter(sampler))
    with pytest.raises(UsageError, match=r"loop over sampler.track\(loader\)"):
        sampler.state_dict()
    with pytest.raises(UsageError, match="a list, does not say where"):
        sampler.state_dict(after=[1, 2])
    after = sampler.state_dict(after=[None, {"position": [[4, 16], [4, 17]]}])
    assert (after["epoch"], after["consumed"]) == (4, 24)
    last = sampler.state_dict(after={"position": [[4, 56]]})
    assert (last["epoch"], last["consumed"]) == (5, 0)
    sampler.load_state_dict(last)
    assert (sampler.epoch, sampler.consumed) == (5, 0)


def test_a_loop_that_was_left_may_end_late() -> None:
    (sampler,) = ranks(1, 8)
    first = sampler.track(sampler)
    next(first)
    second = sampler.track(sampler)
    assert next(second) == the_epoch(0)[8:16]
    first.close()  # type: ignore[attr-defined]
    assert next(second) == the_epoch(0)[16:24]
    assert sampler.state_dict()["consumed"] == 24


def test_a_loader_without_order_is_refused() -> None:
    (sampler,) = ranks(1, 8)

    class Unordered(list[int]):
        in_order = False

    with pytest.raises(UsageError, match="in_order=False"):
        next(sampler.track(Unordered()))


def test_an_iterator_has_a_state_of_its_own() -> None:
    """As ``StatefulDataLoader`` asks for it, whose workers are ahead."""
    (sampler,) = ranks(1, 8)
    ahead = iter(sampler)
    next(ahead)
    state = copy.deepcopy(ahead.state_dict())  # type: ignore[attr-defined]
    rest = list(ahead)
    (other,) = ranks(1, 8)
    again = iter(other)
    again.load_state_dict(state)  # type: ignore[attr-defined]
    assert list(again) == rest


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"manifest": "def"}, "saved with manifest def, here it is abc"),
        ({"split": "test"}, "saved with split test, here it is train"),
        ({"settings": {"seed": 4, "uneven": "drop"}}, "saved with settings"),
        ({"format": 2}, "saved with format 2, here it is 1"),
        ({"epoch": -1}, "epoch -1"),
        ({"epoch": True}, "epoch True"),
        ({"consumed": COUNT + 1}, f"epoch 0 and {COUNT + 1} examples"),
        ({"consumed": "7"}, "epoch 0 and '7' examples"),
        ({"more": 1}, "this is no state of a sampler"),
    ],
)
def test_a_state_of_anything_else_is_refused_and_changes_nothing(
    change: dict[str, Any], words: str
) -> None:
    (sampler,) = ranks(1, 8)
    with pytest.raises(UsageError, match=words):
        sampler.load_state_dict({**sampler.state_dict(), **change})
    assert (sampler.epoch, sampler.consumed) == (0, 0)
    nonsenses: tuple[Any, ...] = (None, [], "x", {})
    for nonsense in nonsenses:
        with pytest.raises(UsageError, match="no state of a sampler"):
            sampler.load_state_dict(nonsense)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"batch_size": 0}, "batch_size=0: expected 1 or more"),
        ({"batch_size": "8"}, "batch_size='8': expected 1 or more, a whole number"),
        ({"batch_size": 8.5}, "batch_size=8.5: expected 1 or more, a whole number"),
        ({"batch_size": True}, "batch_size=True"),
        ({"batch_size": None}, "batch_size=None"),
        ({"rank": "0", "world_size": 2}, "rank='0': expected 0 or more, a whole number"),
        ({"rank": -1, "world_size": 2}, "rank=-1: expected 0 or more"),
        ({"rank": 0, "world_size": 0}, "world_size=0: expected 1 or more"),
        ({"shuffle": True}, "shuffle=True is none of global, blocks, none"),
        ({"window": "2", "shuffle": "blocks"}, "window='2': expected 1 or more"),
        ({"rank": 2, "world_size": 2}, "there is no rank 2 in a world of size 2"),
        ({"rank": 1}, "give both rank and world_size"),
        ({"uneven": "all"}, "uneven='all' is none of keep, drop, repeat"),
        ({"shuffle": "all"}, "shuffle='all' is none of global, blocks, none"),
        ({"window": 0, "shuffle": "blocks"}, "window=0: expected 1 or more"),
        ({"balance": "label"}, "balance='label': expected class"),
        ({"balance": "class", "weights": [1] * 24}, "give one alone"),
        ({"weights": [1] * 24, "shuffle": "none"}, "give one alone"),
        ({"weights": [1] * 23}, r"shape \(23,\), expected \(24,\)"),
        ({"weights": [-1] * 24}, "numbers of 0 or more, not all 0"),
        ({"batch_size": 25}, "24 examples, fewer than the 25 of one batch"),
    ],
)
def test_what_cannot_be_is_refused_in_a_line(
    tiny: Made, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        dataprep.open(tiny.out).sampler(**{"batch_size": 4, **options})


def test_rank_and_world_size_are_those_of_the_environment(
    tiny: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = dataprep.open(tiny.out)
    assert (records.sampler(4).rank, records.sampler(4).world_size) == (0, 1)
    monkeypatch.setenv("RANK", "2")
    monkeypatch.setenv("WORLD_SIZE", "3")
    sampler = records.sampler(4)
    assert (sampler.rank, sampler.world_size, len(sampler)) == (2, 3, 2)


def test_a_state_is_of_one_data_set_and_one_choice(tiny: Made, radiographs: Made) -> None:
    records = dataprep.open(tiny.out)
    state = records.sampler(4).state_dict()
    assert state["manifest"] == dataprep.SealedSet.read(tiny.out).manifest.sha256
    chosen = dataprep.open(tiny.out, where="classes[1] <> 'n01491361'")
    for other, words in (
        (dataprep.open(tiny.out, "validation"), "with examples 24, here it is 6"),
        (chosen, "with examples 24"),
        (records[2:], "with examples 24"),
        (dataprep.open(radiographs.out), "saved with"),
    ):
        with pytest.raises(UsageError, match=words):
            other.sampler(4).load_state_dict(state)
    with pytest.raises(UsageError, match="saved with rows"):
        records[1:17].sampler(4).load_state_dict(records[0:16].sampler(4).state_dict())
    same = dataprep.open(tiny.out, where="classes[1] <> 'n01491361'")
    same.sampler(4).load_state_dict(chosen.sampler(4).state_dict())


def test_every_class_comes_equally_often(tiny: Made) -> None:
    records = dataprep.open(
        tiny.out, where="classes[1] <> 'n01491361' OR key < 'n01491361/n01491361_4'"
    )
    sizes = [int((records.labels == one).sum()) for one in (3, 303, 603)]
    assert len(set(sizes)) > 1, "they differ in size"
    sampler = records.sampler(3, balance="class")
    for batch in sampler:
        assert sorted(records.labels[batch].tolist()) == [3, 303, 603]
    seen = [number for _ in range(11) for batch in sampler for number in batch]
    assert {len(set(seen)), len(records)} == {len(records)}, "those of large classes all come too"


def test_many_labels_cannot_be_balanced(radiographs: Made) -> None:
    with pytest.raises(UsageError, match="for images of one label; of these, give weights"):
        dataprep.open(radiographs.out).sampler(2, balance="class")


def test_of_a_part_there_is_a_state_for_one_rank_alone(tiny: Made, tmp_path: Path) -> None:
    records = dataprep.open(staged(tiny, tmp_path / "node", share=Share(1, 2)))
    alone = records.sampler(2, rank=0, world_size=1)
    assert alone.state_dict()["rows"] is not None
    with pytest.raises(UsageError, match="with rows"):
        dataprep.open(staged(tiny, tmp_path / "other", share=Share(0, 2))).sampler(
            2, rank=0, world_size=1
        ).load_state_dict(alone.state_dict())
    several = records.sampler(2, rank=0, world_size=2)
    assert len(several) == 3
    with pytest.raises(UsageError, match="of a part of a data set there is no state"):
        several.state_dict()


# --- each example once: what is evaluated ---


@settings(deadline=None)
@given(st.integers(1, 70), st.integers(1, 6), st.integers(1, 9), st.integers(0, 12), st.data())
def test_kept_to_the_last_each_comes_once_on_one_rank(
    count: int, world_size: int, batch_size: int, before: int, data: st.DataObject
) -> None:
    """Also from a state that other ranks left; and the state is the same on every rank."""
    order = Shuffled(count, 3, {"seed": 3, "shuffle": "global"})
    state = ranks(1, 1, "keep", order)[0].state_dict() | {"consumed": min(before, count - 1)}
    samplers = ranks(world_size, batch_size, "keep", order)
    for sampler in samplers:
        sampler.load_state_dict(state)
    loops = [sampler.track(sampler) for sampler in samplers]
    places: list[int] = []
    left = data.draw(st.integers(0, 9), "steps before the run is stopped")
    while batches := [batch for loop in loops if (batch := next(loop, None))]:
        places += [place for batch in batches for place in batch.positions]
        assert all(batches)
        if not (left := left - 1):
            states = [sampler.state_dict() for sampler in samplers]
            assert all(one == states[0] for one in states[: len(batches)])
            if states[0]["epoch"] == 0:
                samplers = ranks(1 + world_size % 3, 1 + batch_size % 4, "keep", order)
                for sampler in samplers:
                    sampler.load_state_dict(states[0])
                loops = [sampler.track(sampler) for sampler in samplers]
    assert sorted(places) == list(range(state["consumed"], count))
    assert {(one.epoch, one.consumed) for one in samplers} == {(1, 0)}


@pytest.mark.parametrize("count", [1, 2, 3, 7, 16, 17, 31, COUNT])
def test_kept_to_the_last_all_ranks_take_equally_many_steps(count: int) -> None:
    order = Shuffled(count, 3, {"seed": 3, "shuffle": "global"})
    for world_size in range(1, 6):
        for batch_size in (1, 2, 3, 8, 100):
            samplers = ranks(world_size, batch_size, "keep", order)
            epochs = [[len(batch) for batch in sampler] for sampler in samplers]
            assert [sum(sizes) for sizes in epochs] == samplers[0].counts
            assert sum(samplers[0].counts) == count
            assert max(samplers[0].counts) - min(samplers[0].counts) <= 1
            steps = [len(sizes) for sizes in epochs]
            assert steps == [len(sampler) for sampler in samplers]
            assert steps[0] == -(-count // (world_size * batch_size))
            assert 0 not in [size for sizes in epochs for size in sizes]
            if batch_size > 1 and count >= world_size:
                assert len(set(steps)) == 1, "or a collective in each step would wait for ever"


def test_counts_are_what_ranks_receive() -> None:
    for uneven, expected in (("drop", [18, 18, 18]), ("repeat", [21, 21, 21])):
        samplers = ranks(3, 6, uneven)  # type: ignore[arg-type]
        assert [sum(map(len, sampler)) for sampler in samplers] == expected
        assert samplers[0].counts == expected


def test_a_whole_pass_follows_one_that_was_left(tiny: Made) -> None:
    """As a sanity check of Lightning's leaves one."""
    sampler = dataprep.open(tiny.out, "validation").sampler(2)
    begun = sampler.track(sampler)
    next(begun)
    state = sampler.state_dict()
    for _ in range(2):
        assert [number for batch in sampler.track(sampler) for number in batch] == [*range(6)]
    sampler.load_state_dict(state)
    assert list(sampler.rest()[1]) == [2, 3, 4, 5]
    assert [number for batch in sampler.track(sampler) for number in batch] == [2, 3, 4, 5]
    next(iter(sampler.track(sampler)))
    assert next(iter(sampler)) == [0, 1]
    assert sampler.state_dict(after={"position": [[0, 2]]})["consumed"] == 4


def test_what_is_held_out_is_read_in_order_and_whole(tiny: Made) -> None:
    train, held_out = (dataprep.open(tiny.out, split) for split in ("train", "validation"))

    def is_of(records: Any, **options: Any) -> list[Any]:
        settings = records.sampler(2, **options).state_dict()["settings"]
        return [settings["shuffle"], settings["uneven"]]

    assert is_of(train) == ["global", "drop"]
    assert is_of(train, shuffle="none") == ["none", "keep"]
    assert is_of(train, shuffle="none", uneven="drop") == ["none", "drop"]
    assert is_of(held_out) == is_of(held_out[2:]) == ["none", "keep"]
    assert is_of(held_out, shuffle="global") == ["global", "keep"]
    assert is_of(held_out, uneven="drop") == ["none", "drop"]
    assert is_of(held_out, shuffle="global", uneven="repeat") == ["global", "repeat"]
    assert is_of(held_out, weights=[1] * 6) == ["weights", "keep"]
    assert is_of(dataprep.mix({"a": held_out})) == ["mixture", "drop"]


def test_ranks_may_be_known_later_than_the_sampler(
    tiny: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a trainer begins the process group, which gets the loader before."""
    sampler = dataprep.open(tiny.out, "validation").sampler(2)
    assert sampler.counts == [6]
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert (sampler.counts, len(sampler)) == ([3, 3], 2)
    assert [list(batch) for batch in sampler.track(sampler)] == [[1, 3], [5]]
    dropping = dataprep.open(tiny.out).sampler(12)
    monkeypatch.setenv("WORLD_SIZE", "3")
    with pytest.raises(UsageError, match="24 examples, fewer than the 36 of one batch"):
        next(dropping.track(dropping))


def test_a_sampler_says_what_it_reads(tiny: Made) -> None:
    records = dataprep.open(tiny.out, "validation")[1:]
    sampler = records.sampler(2, rank=1, world_size=2)
    next(sampler.track(sampler))
    assert repr(sampler) == (
        f"<sampler of 5 of 6 records of validation in {tiny.out}: 2 batches of 2 an epoch, "
        'shuffle="none", uneven="keep", seed 0, rank 1 of 2, epoch 0, 2 samples received>'
    )
    mixture = dataprep.mix({"a": records})
    assert repr(mixture.sampler(5)).startswith("<sampler of mixture of 5 records of 1 set: 1 batch")
