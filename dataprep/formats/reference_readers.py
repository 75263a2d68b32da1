"""Readers that others wrote, to prove ours right."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from dataprep.errors import SinkError, UsageError

_BATCH = 16  # images that DALI reads at once


def import_reader(package: str, *modules: str, install: str) -> Any:
    """A library that reads the format, without its dependencies' warnings.

    Raises:
        UsageError: it cannot be imported; ``install`` is what to give pip.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for module in modules:
                import_module(f"{package}.{module}")
            return import_module(package)
    except ImportError as error:
        raise UsageError(
            f"{package} cannot be imported ({error}): pip install {install}"
        ) from error


def dali_records(reader: str, count: int, **files: Sequence[str]) -> Iterator[tuple[bytes, Any]]:
    """(Data, labels) of ``count`` records in order, by a reader of NVIDIA DALI, on the CPU.

    Args:
        count: how many records there are; DALI refuses files without any.

    Raises:
        UsageError: DALI is not installed.
        SinkError: it cannot read them.
    """
    dali = import_reader("nvidia.dali", "fn", "pipeline", install="nvidia-dali-cuda120")
    if not count:
        return
    pipeline = dali.Pipeline(batch_size=_BATCH, num_threads=1, device_id=None)
    try:
        with pipeline:
            pipeline.set_outputs(*getattr(dali.fn.readers, reader)(**files))
        pipeline.build()
        for start in range(0, count, _BATCH):
            data, labels = pipeline.run()
            for index in range(min(_BATCH, count - start)):
                yield np.asarray(data.at(index)).tobytes(), np.asarray(labels.at(index)).reshape(-1)
    except RuntimeError as error:
        said = (str(error).strip() or repr(error)).splitlines()[0]
        raise SinkError(f"{files['path'][0]}: DALI cannot read it: {said}") from error
