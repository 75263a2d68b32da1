"""Conformance: what a sink says of itself, and where it puts its files."""

# ruff: noqa: S101, D102 - these are tests: asserts, and names that say what they are

from __future__ import annotations

import json
import re
from pathlib import PurePosixPath

import pytest

from dataprep.errors import UsageError
from dataprep.sinks.base import Layout, ShardName, Sink

_LAYOUTS: tuple[Layout, ...] = ("split", "flat")
_COUNTS = (1, 2, 11)


class NamingTests:
    """Name, options and paths."""

    def test_it_has_a_name_and_a_line_about_itself(self, variant: Sink) -> None:
        assert re.fullmatch(r"[a-z][a-z0-9_-]*", variant.name)
        assert variant.summary.strip(), "one line for `dataprep sinks`"
        assert "\n" not in variant.summary
        assert variant.overhead() >= 0

    def test_its_options_have_choices_and_nothing_else_is_taken(self, variant: Sink) -> None:
        kind = type(variant)
        for option, choices in kind.OPTIONS.items():
            assert option.isidentifier()
            assert choices
            assert len(set(choices)) == len(choices)
            with pytest.raises(UsageError):
                kind(**{option: "no such choice"})
        with pytest.raises(UsageError):
            kind(no_such_option="x")
        assert kind().options == {option: choices[0] for option, choices in kind.OPTIONS.items()}

    def test_its_config_makes_it_again(self, variant: Sink) -> None:
        config = json.loads(json.dumps(dict(variant.config())))
        assert config == dict(variant.config()), "config must be plain JSON"
        again = type(variant)(**config)
        assert again.options == variant.options
        assert again.config() == variant.config()
        assert again.pixels == variant.pixels

    @pytest.mark.parametrize("layout", _LAYOUTS)
    @pytest.mark.parametrize("count", _COUNTS)
    def test_its_files_stay_below_the_output_directory(
        self, variant: Sink, layout: Layout, count: int
    ) -> None:
        for path in _all_paths(variant, layout, {"train": count, "validation": count}):
            assert isinstance(path, PurePosixPath)
            assert not path.is_absolute()
            assert ".." not in path.parts
            assert not any(part.startswith(".") for part in path.parts), (
                "hidden: thought unfinished"
            )
            assert path != PurePosixPath("manifest.json")

    @pytest.mark.parametrize("layout", _LAYOUTS)
    @pytest.mark.parametrize("train", _COUNTS)
    @pytest.mark.parametrize("validation", _COUNTS)
    def test_no_two_files_share_a_place(
        self, variant: Sink, layout: Layout, train: int, validation: int
    ) -> None:
        paths = _all_paths(variant, layout, {"train": train, "validation": validation})
        assert len(set(paths)) == len(paths)
        directories = {parent for path in paths for parent in path.parents}
        assert directories.isdisjoint(paths), "a file where a directory must be"
        assert len({str(path).lower() for path in paths}) == len(paths)

    def test_places_are_always_the_same(self, variant: Sink) -> None:
        again = type(variant)(**dict(variant.config()))
        for layout in _LAYOUTS:
            counts = {"train": 3, "validation": 1}
            assert _all_paths(variant, layout, counts) == _all_paths(variant, layout, counts)
            assert _all_paths(variant, layout, counts) == _all_paths(again, layout, counts)
            sizes = {
                len(variant.paths(ShardName("train", number, count), layout))
                for count in _COUNTS
                for number in range(count)
            }
            assert len(sizes) == 1, "every shard has the same kinds of files"
            assert sizes != {0}


def _all_paths(sink: Sink, layout: Layout, counts: dict[str, int]) -> list[PurePosixPath]:
    found: list[PurePosixPath] = []
    for split, count in counts.items():
        for number in range(count):
            found += sink.paths(ShardName(split, number, count), layout)
        found += sink.split_paths(split, count, layout)
    return found
