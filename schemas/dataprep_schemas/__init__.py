"""What dataprep reads and writes, stated as data: protobuf, JSON Schema and class lists."""

from __future__ import annotations

from functools import cache
from importlib import resources
from inspect import cleandoc
from typing import Any


def _text(name: str) -> str:
    return resources.files(__name__).joinpath(name).read_text(encoding="utf-8")


@cache
def imagenet_classes() -> tuple[tuple[str, str], ...]:
    """The 1000 ILSVRC2012 classes as (WordNet id, English name), in ASCII order of the id.

    The position in this tuple is the 0-based class index that Caffe, MXNet, TFDS and
    torchvision use; the TPU script's 1-based label is that index plus one.
    """
    lines = _text("imagenet_classes.tsv").splitlines()
    return tuple((synset, name) for synset, _, name in (line.partition("\t") for line in lines))


@cache
def imagenet_validation_synsets() -> tuple[str, ...]:
    """The WordNet id of each of the 50,000 ILSVRC2012 validation images, in number order.

    Line i (1-based) belongs to ``ILSVRC2012_val_%08d.JPEG`` with number i. Source:
    ``imagenet_2012_validation_synset_labels.txt`` of tensorflow/models.
    """
    return tuple(_text("imagenet_2012_validation_synset_labels.txt").split())


@cache
def manifest_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of ``manifest.json``; ``manifest.schema.json`` has the same."""
    from msgspec.json import schema  # late, like the types: class lists need neither

    from dataprep_schemas.manifest import Manifest

    about = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "dataprep manifest, version 2",
    }
    made = schema(Manifest)
    for kind in made["$defs"].values():
        kind["description"] = cleandoc(kind["description"])
    made["$defs"]["Manifest"]["required"].append("sha256")  # only what is being made has none
    return about | made
