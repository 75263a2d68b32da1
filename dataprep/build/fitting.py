"""Making what the user asked for and what the format can hold fit, before anything is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dataprep.build.request import Request
from dataprep.datasets import Dataset
from dataprep.errors import UsageError
from dataprep.images import Recipe
from dataprep.plugins import load_sink
from dataprep.sinks import DatasetInfo, Sink


def fit_request(request: Request, dataset: Dataset) -> Request:
    """The request with the recipe that the data set and the format need.

    Args:
        request: what the user asked for.
        dataset: what is to be prepared.

    Raises:
        UsageError: the two cannot be brought together, or the sink or an option does not exist.
    """
    sink = load_sink(request.sink, request.sink_options)
    if dataset.has_boxes and request.recipe.exif == "apply":
        raise UsageError(
            "--exif apply moves what is in the picture, but bounding boxes stay; leave out "
            f"--exif apply{' or --bbox_csv' if 'bbox_csv' in dataset.options else ''}"
        )
    fit = _for_pixels if sink.pixels else _for_files
    recipe = fit(request.recipe, sink)
    if sink.needs_mean:
        recipe = replace(recipe, statistics="mean")
    elif recipe.statistics == "mean":
        raise UsageError(f"--stats mean: sink {sink.name} has no mean image; use --stats")
    if recipe.statistics == "mean" and not (recipe.fixed_size and recipe.decodes):
        raise UsageError(
            "--stats mean needs images of one size: add --resize WIDTHxHEIGHT or --center_crop SIDE"
        )
    classes = dataset.classes()
    if classes is not None:
        sink.check(describe_examples(classes, recipe, dataset))
    return replace(request, recipe=recipe)


def _for_pixels(recipe: Recipe, sink: Sink) -> Recipe:
    """Arrays are stored as they are, all of one size and with one number of channels."""
    if recipe.encoding not in ("keep", "raw"):
        raise UsageError(
            f"--encoding {recipe.encoding}: sink {sink.name} stores pixels, not encoded images"
        )
    if recipe.depth == "keep":
        raise UsageError(f"--depth keep: sink {sink.name} stores 8-bit pixels; leave it out")
    return replace(recipe, encoding="raw", color="rgb" if recipe.color == "keep" else recipe.color)


def _for_files(recipe: Recipe, sink: Sink) -> Recipe:
    if recipe.encoding == "raw":
        raise UsageError(
            f"--encoding raw: sink {sink.name} stores encoded images; pixels are stored by --sink "
            "hdf5-arrays, hdf5-caffe, or lmdb with --datum raw"
        )
    return recipe


def describe_examples(
    classes: Sequence[tuple[str, str]], recipe: Recipe, dataset: Dataset
) -> DatasetInfo:
    """What is true of every example that the recipe makes of a data set's images."""
    return DatasetInfo(
        classes=tuple(classes),
        multilabel=dataset.multilabel,
        # The TPU script says RGB of grey JPEGs too: what readers decode to.
        colorspace="Grayscale" if recipe.color == "gray" else "RGB",
        size=recipe.fixed_size,
        attributes=tuple((attribute.name, attribute.kind) for attribute in dataset.attributes),
        boxes=dataset.has_boxes,
    )
