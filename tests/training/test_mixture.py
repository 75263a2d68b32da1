"""Several sets as one: their shares, their states, and what cannot be mixed."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import dataprep
from dataprep.errors import DataprepError, UsageError
from tests.conftest import Made, Shelf


def test_shares_hold_and_every_example_of_a_set_comes_before_any_again(tiny: Made) -> None:
    train, validation = dataprep.open(tiny.out), dataprep.open(tiny.out, "validation")
    mixture = dataprep.mix({"a": train, "b": validation}, weights={"a": 1, "b": 2})
    assert len(mixture) == 30
    assert mixture.labels.tolist() == [*train.labels, *validation.labels]
    sampler = mixture.sampler(3)
    seen: list[int] = []
    for _ in range(4):
        for batch in sampler:
            assert sum(number < 24 for number in batch) == 1
            seen += batch
    counts = Counter(number for number in seen if number >= 24)
    assert max(counts.values()) - min(counts.values()) <= 1
    assert len(counts) == 6
    assert len({number for number in seen if number < 24}) == 24


def test_its_examples_are_those_of_the_sets(tiny: Made, shelf: Shelf) -> None:
    other = dataprep.open(shelf("recordio").out)
    mixture = dataprep.mix({"tfrecord": dataprep.open(tiny.out), "recordio": other})
    numbers = [47, 0, 24, 23, 47]
    assert [mixture[number].key for number in numbers] == [
        example.key for example in mixture.__getitems__(numbers)
    ]
    assert mixture[24].encoded == other[0].encoded == mixture.encoded([24])[0]
    assert mixture[-1].key == other[-1].key
    assert mixture.place_of(25).startswith("recordio: ")
    assert "50.0% recordio: <24 records" in repr(mixture)
    with pytest.raises(IndexError, match="no example 48 of 48"):
        mixture[48]
    with pytest.raises(UsageError, match="no parts"):
        mixture[:3]
    images, labels = next(iter(mixture.loader(8, framework="numpy")))
    assert images.shape == (8, 16, 16, 3)
    assert labels.shape == (8,)


def test_it_is_gone_on_with_exactly(tiny: Made) -> None:
    train, validation = dataprep.open(tiny.out), dataprep.open(tiny.out, "validation")
    sets = {"a": train, "b": validation}
    mixture = dataprep.mix(sets, {"a": 0.7, "b": 0.3})
    whole = [number for batch in mixture.sampler(1) for number in batch]
    sampler = mixture.sampler(5, rank=0, world_size=1)
    loop = sampler.track(sampler)
    found = next(loop) + next(loop)
    other = mixture.sampler(10)
    other.load_state_dict(sampler.state_dict())
    for batch in other.track(other):
        found += batch
    assert found == whole
    with pytest.raises(UsageError, match="saved with settings"):
        dataprep.mix(sets, {"a": 0.6, "b": 0.4}).sampler(5).load_state_dict(sampler.state_dict())
    with pytest.raises(UsageError, match="saved with mixture"):
        dataprep.mix({"a": train, "b": train[:6]}, {"a": 0.7, "b": 0.3}).sampler(5).load_state_dict(
            sampler.state_dict()
        )


def test_what_cannot_be_mixed_is_refused_in_a_line(tiny: Made, radiographs: Made) -> None:
    train, other = dataprep.open(tiny.out), dataprep.open(radiographs.out)
    cases: list[tuple[dict[str, Any], Any, str]] = [
        ({}, None, "one or more sets, none of them empty"),
        ({"a": train, "b": train[:0]}, None, "none of them empty"),
        ({"a": train, "b": other}, None, "b and a differ in their classes"),
        ({"a": train}, {"b": 1}, "weights of b, and sets a; expected one of each"),
        ({"a": train}, {"a": -1}, "the weight of a is -1"),
    ]
    for sets, weights, words in cases:
        with pytest.raises(UsageError, match=words):
            dataprep.mix(sets, weights)
    mixture = dataprep.mix({"a": train})
    for options in ({"shuffle": "none"}, {"balance": "class"}, {"weights": np.ones(24)}):
        with pytest.raises(DataprepError, match="the order of its weights"):
            mixture.sampler(2, **options)
