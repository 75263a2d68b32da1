"""Caffe's mean file: what ``compute_image_mean`` writes and a transformer's ``mean_file`` names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from dataprep.sinks.base import WrittenFile
from dataprep.sinks.hashed_file import HashedFile
from dataprep_schemas import caffe_pb2


def encode_mean(mean: np.ndarray[Any, np.dtype[np.float64]]) -> bytes:
    """The serialised BlobProto of a mean image.

    With the legacy fields num = 1, channels, height and width, which Caffe's tools and scripts
    expect, in (channel, height, width) order, BGR, float32 rounded from exact means; Caffe itself
    adds up in float32.

    Args:
        mean: (height, width, channels), RGB or grey, 0 to 255.
    """
    height, width, channels = mean.shape
    planes = mean[:, :, ::-1].transpose(2, 0, 1).astype(np.float32)
    blob = caffe_pb2.BlobProto(num=1, channels=channels, height=height, width=width)
    blob.data.extend(planes.ravel().tolist())
    return blob.SerializeToString()


def write_mean(path: Path, mean: np.ndarray[Any, np.dtype[np.float64]]) -> WrittenFile:
    """Write `encode_mean` to a new file."""
    file = HashedFile(path)
    try:
        file.write(encode_mean(mean))
        return file.finish()
    finally:
        file.abandon()
