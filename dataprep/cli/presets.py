"""Names for sets of options that somebody has published."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import click
from click.core import ParameterSource

from dataprep.errors import UsageError


@dataclass(frozen=True, slots=True)
class Preset:
    """What it is, and the options it stands for, by parameter name."""

    what: str
    options: Mapping[str, object]


PRESETS: Mapping[str, Preset] = {
    # NVIDIA's and Intel's MXNet best practice: im2rec --resize 480 --quality 95.
    "mxnet-480": Preset(
        "--sink recordio --resize 480 --quality 95, MXNet's best practice",
        {"sink": "recordio", "resize": "480", "quality": 95},
    ),
    # Radiograph classifiers of the best-practice guide, table 10: 250 x 250 x 1.
    "radiologist": Preset(
        "--resize 250x250 --color gray, radiographs of 250x250x1",
        {"resize": "250x250", "color": "gray"},
    ),
}


def check_preset(context: click.Context, option: click.Parameter, name: str | None) -> str | None:
    """Refuse an unknown name; click's own choices would take ``-`` and ``_`` for the same."""
    if name is not None and name not in PRESETS:
        raise click.BadParameter(f"{name!r} is not one of {', '.join(PRESETS)}.", context, option)
    return name


def apply_preset(context: click.Context, options: dict[str, Any]) -> dict[str, Any]:
    """The options with those of ``--preset`` filled in.

    Raises:
        UsageError: an option that the preset sets was given another value.
    """
    name = options["preset"]
    if name is None:
        return options
    preset = PRESETS[name].options
    for option, value in preset.items():
        given = context.get_parameter_source(option) is not ParameterSource.DEFAULT
        if given and options[option] != value:
            raise UsageError(
                f"--preset {name} means --{option} {value}, but --{option} {options[option]} "
                "was given; leave one of them out"
            )
    return {**options, **preset}
