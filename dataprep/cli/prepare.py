"""``dataprep imagenet``, ``chestxray14``, ``folder`` and those of plugins: a command a data set."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dataprep.cli.dataset_options import BAD, FORMAT, IMAGE, ORDER, PLACES, RUN
from dataprep.cli.engine_options import chosen_engine
from dataprep.cli.outcome import describe_outcome
from dataprep.cli.presets import apply_preset
from dataprep.cli.resource_options import within_limits
from dataprep.cli.sink_options import Decorated, chosen_options, options
from dataprep.cli.striping_options import chosen_striping
from dataprep.cli.values import shard_counts
from dataprep.datasets.base import Dataset, Option
from dataprep.errors import DataprepError
from dataprep.plugins import dataset_class

if TYPE_CHECKING:
    from dataprep.build.request import Request
    from dataprep.images import Recipe

_RESUMING = """\
Killed at any moment, the same command resumes: only missing shards are made, and the result
is the same, byte for byte, for any number of workers on any engine. Options after -- are Beam's
own, e.g. --runner FlinkRunner -- --flink_master=HOST:PORT.
"""


def dataset_command(name: str) -> click.Command:
    """The command of a data set: what all share, and the data set's own options.

    Raises:
        DataprepError: the data set cannot be loaded.
    """
    dataset = dataset_class(name)
    own = options(*map(_own_option, dataset.OPTIONS))

    @click.command(name=name, help=f"{inspect.cleandoc(dataset.summary)}\n\n{_RESUMING}")
    @options(PLACES, own, ORDER, IMAGE, FORMAT, BAD, RUN)
    @click.pass_context
    def command(context: click.Context, /, **values: Any) -> None:
        _prepare(dataset, context, values)

    _check_names(dataset, command.params)
    for parameter in command.params:
        if parameter.name in dataset.defaults:
            parameter.default = dataset.defaults[parameter.name]
    return command


def _check_names(dataset: type[Dataset], parameters: Sequence[click.Parameter]) -> None:
    """Refuse a plugin whose options hide those that all share, or that changes one there is not.

    Raises:
        DataprepError: names the option.
    """
    spelled = Counter(name for parameter in parameters for name in parameter.opts)
    shared = {parameter.name for parameter in parameters}
    wrong = [f"--{option.name}" for option in dataset.OPTIONS if spelled[f"--{option.name}"] > 1]
    wrong += [f"the default of --{name}" for name in dataset.defaults if name not in shared]
    if wrong:
        raise DataprepError(
            f"data set {dataset.name} cannot have {wrong[0]}: that is for options which all data "
            "sets share, and only for those; this is a defect of the data set"
        )


def _own_option(option: Option) -> Callable[[Decorated], Decorated]:
    kind: Any = None
    if option.choices:
        kind = click.Choice(option.choices)
    elif option.file:
        kind = click.Path(path_type=Path, dir_okay=False, exists=True)
    # Not default=None: since click 8.3 that is a default like any other.
    default: dict[str, Any] = (
        {} if option.default is None else {"default": option.default, "show_default": True}
    )
    return click.option(
        f"--{option.name}",
        _parameter(option),
        type=kind,
        # Not click's own, which would show choices as it normalizes them: `-` as `_`.
        metavar=f"[{'|'.join(option.choices)}]" if option.choices else option.metavar,
        help=option.help,
        **default,
    )


def _parameter(option: Option) -> str:
    """The name of its value here, unlike that of any shared option."""
    return f"own_{option.name}"


def _own_values(dataset: type[Dataset], values: Mapping[str, Any]) -> dict[str, str]:
    found = {option.name: values[_parameter(option)] for option in dataset.OPTIONS}
    return {
        # Absolute, because workers need not have this process's working directory.
        name: str(value.absolute()) if isinstance(value, Path) else value
        for name, value in found.items()
        if value is not None
    }


def _prepare(dataset: type[Dataset], context: click.Context, values: dict[str, Any]) -> None:
    # Imported here, because Beam takes seconds.
    from dataprep.cli.progress import TerminalReporter
    from dataprep.cli.stopping import resumable

    request = _request(dataset, apply_preset(context, values))
    how = "finished shards are kept; run the same command again to resume"
    with resumable(how):
        from dataprep_pipelines.run import prepare

        engine = chosen_engine(values)
        reporter = TerminalReporter()
        with within_limits(values, here=engine.is_local):
            outcome = prepare(request, engine, reporter)
    reporter.line(describe_outcome(request.out, outcome))


def _request(dataset: type[Dataset], values: dict[str, Any]) -> Request:
    from dataprep.build.request import MaxBad, Request

    return Request(
        dataset=dataset.name,
        dataset_options=_own_values(dataset, values),
        raw=values["raw_data_dir"],
        out=values["local_scratch_dir"],
        recipe=_recipe(dataset, values),
        max_bad=MaxBad.parse(values["max_bad"]),
        sink=values["sink"],
        sink_options=chosen_options(values),
        layout=values["layout"],
        splits=_names(values["splits"]),
        num_shards=shard_counts(values["num_shards"]),
        shuffle=values["shuffle"],
        seed=values["seed"],
        limit=values["limit"],
        index_dir=values["index_dir"],
        build_dir=values["build_dir"],
        keep_rejected=values["keep_rejected"],
        overwrite=values["overwrite"],
        striping=chosen_striping(values),
    )


def _recipe(dataset: type[Dataset], values: dict[str, Any]) -> Recipe:
    from dataprep.images import Recipe, Resize

    return Recipe(
        check=values["check"],
        resize=None if values["resize"] is None else Resize.parse(values["resize"]),
        center_crop=values["center_crop"],
        filter=values["resampling"],
        quality=values["quality"],
        encoding=values["encoding"],
        passes=tuple(dataset.formats),
        color=values["color"],
        depth=values["depth"],
        exif=values["exif"],
        statistics=values["stats"],
    )


def _names(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(name.strip() for name in text.split(",") if name.strip())
