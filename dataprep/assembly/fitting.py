"""Making what the user asked for and what the format can hold fit, before anything is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dataprep.assembly.request import Request
from dataprep.errors import UsageError
from dataprep.images import Recipe
from dataprep.plugins import load_sink
from dataprep.sinks import DatasetInfo, Sink


def fit_request(request: Request, classes: Sequence[tuple[str, str]]) -> Request:
    """The request with the recipe that the format needs.

    Args:
        request: what the user asked for.
        classes: the data set's, as (identifier, name).

    Raises:
        UsageError: the two cannot be brought together, or the sink or an option does not exist.
    """
    sink = load_sink(request.sink, request.sink_options)
    if request.bbox_csv is not None and not sink.keeps_boxes:
        raise UsageError(f"--bbox_csv: sink {sink.name} has no place for bounding boxes")
    recipe = _for_pixels(request.recipe, sink) if sink.pixels else request.recipe
    if sink.needs_mean:
        recipe = replace(recipe, statistics="mean")
    elif recipe.statistics == "mean":
        raise UsageError(f"--stats mean: sink {sink.name} has no mean image; use --stats")
    if recipe.statistics == "mean" and not (recipe.fixed_size and recipe.decodes):
        raise UsageError(
            "--stats mean needs images of one size: add --resize WIDTHxHEIGHT or --center_crop SIDE"
        )
    sink.check(describe_examples(classes, recipe))
    return replace(request, recipe=recipe)


def _for_pixels(recipe: Recipe, sink: Sink) -> Recipe:
    """Arrays are stored as they are, all of one size and with one number of channels."""
    if recipe.encoding not in ("keep", "raw"):
        raise UsageError(
            f"--encoding {recipe.encoding}: sink {sink.name} stores pixels, not encoded images"
        )
    return replace(recipe, encoding="raw", color="rgb" if recipe.color == "keep" else recipe.color)


def describe_examples(classes: Sequence[tuple[str, str]], recipe: Recipe) -> DatasetInfo:
    """What is true of every example that the recipe makes."""
    return DatasetInfo(
        classes=tuple(classes),
        # The TPU script says RGB of grey JPEGs too: what readers decode to.
        colorspace="Grayscale" if recipe.color == "gray" else "RGB",
        size=recipe.fixed_size,
    )
