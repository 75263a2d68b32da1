"""Conformance: what a data set says of itself before it has seen any raw data."""

# ruff: noqa: S101, D102 - these are tests: asserts, and names that say what they are

from __future__ import annotations

import inspect
import re

import click
import pytest

from dataprep.datasets.base import Dataset
from dataprep.datasets.conformance.scanning import made_again
from dataprep.datasets.imagenet.dataset import ImageNet
from dataprep.errors import UsageError

_OPTION = re.compile(r"[a-z][a-z0-9_]*")


class DeclaringTests:
    """Name, options, attributes and classes."""

    def test_it_has_a_name_and_says_what_it_is(self, dataset: Dataset) -> None:
        assert re.fullmatch(r"[a-z][a-z0-9_-]*", dataset.name)
        assert inspect.cleandoc(dataset.summary).partition("\n")[0].strip(), "the command's help"
        assert dataset.group.isprintable()
        assert dataset.group
        assert set(dataset.formats) <= {"JPEG", "PNG"}

    def test_its_options_are_documented_and_clash_with_none(self, dataset: Dataset) -> None:
        names = [option.name for option in dataset.OPTIONS]
        assert len(set(names)) == len(names)
        assert set(names).isdisjoint(shared_parameters()), "options that all data sets share"
        for option in dataset.OPTIONS:
            assert _OPTION.fullmatch(option.name), option.name
            assert option.help.strip(), f"--{option.name} has no help"
            assert not (option.choices and option.file), f"--{option.name}: a file has no choices"
            if option.choices and option.default is not None:
                assert option.default in option.choices

    def test_its_options_take_nothing_else(self, dataset: Dataset) -> None:
        kind = type(dataset)
        with pytest.raises(UsageError):
            kind(**{**dataset.options, "no_such_option": "x"})
        for option in dataset.OPTIONS:
            if option.choices:
                with pytest.raises(UsageError):
                    kind(**{**dataset.options, option.name: "no such choice"})

    def test_its_defaults_are_values_of_shared_options(self, dataset: Dataset) -> None:
        shared = shared_parameters()
        for name, value in dataset.defaults.items():
            assert name in shared, f"defaults: no option --{name} that all data sets share"
            # Raises click.BadParameter if it is none of the option's values.
            shared[name].type_cast_value(click.Context(click.Command("command")), value)

    def test_its_config_is_text_without_paths(self, dataset: Dataset) -> None:
        config = dict(dataset.config())
        assert all(isinstance(text, str) for pair in config.items() for text in pair)
        assert config == dict(made_again(dataset).config())
        files = {option.name for option in dataset.OPTIONS if option.file}
        paths = {value for name, value in dataset.options.items() if name in files}
        assert paths.isdisjoint(config.values()), "the manifest would name this machine's files"

    def test_its_attributes_have_plain_names(self, dataset: Dataset) -> None:
        names = [attribute.name for attribute in dataset.attributes]
        assert len(set(names)) == len(names)
        for attribute in dataset.attributes:
            assert re.fullmatch(r"[A-Za-z0-9_]+", attribute.name), attribute.name
            assert attribute.kind in ("int", "text"), attribute.name

    def test_its_classes_are_listed_once(self, dataset: Dataset) -> None:
        classes = dataset.classes()
        if classes is None:
            found = ["b", "10", "a", "9"]
            ordered = list(dataset.order_classes(found))
            assert ordered == list(dataset.order_classes(reversed(found))), "an order of its own"
            assert sorted(identifier for identifier, _ in ordered) == sorted(found)
        else:
            assert classes
            assert all(isinstance(text, str) and text for pair in classes for text in pair)
            assert len({identifier for identifier, _ in classes}) == len(classes)
            assert list(classes) == list(made_again(dataset).classes() or ())


def shared_parameters() -> dict[str, click.Parameter]:
    """The command line's options that all data sets share, by name."""
    # Late, as it is the only thing here that needs the command line. ImageNet has few options.
    from dataprep.cli.prepare import dataset_command

    own = {option.name for option in ImageNet.OPTIONS}
    command = dataset_command(ImageNet.name)
    parameters = command.get_params(click.Context(command))
    by_name = {
        text.removeprefix("--"): parameter
        for parameter in parameters
        for text in (*parameter.opts, *parameter.secondary_opts)
        if text.startswith("--")
    }
    return {name: parameter for name, parameter in by_name.items() if name not in own}
