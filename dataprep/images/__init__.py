"""Judging images by their content, repairing and reshaping them: bytes in, bytes out."""

from __future__ import annotations

from dataprep.images.prepare import Note, Prepared, codec_versions, kind_of, prepare
from dataprep.images.statistics import Measured, Statistics
from dataprep.recipe import Recipe, Resize

__all__ = [
    "Measured",
    "Note",
    "Prepared",
    "Recipe",
    "Resize",
    "Statistics",
    "codec_versions",
    "kind_of",
    "prepare",
]
