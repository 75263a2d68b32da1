"""A RecordIO shard as NVIDIA DALI reads it, on the CPU: a reader that we did not write."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from dataprep.errors import SinkError, UsageError
from dataprep.sinks.base import DatasetInfo
from dataprep.sinks.recordio_sidecars import RecordIndex


def dali_records(
    paths: Sequence[Path], info: DatasetInfo
) -> Iterator[tuple[bytes, tuple[int, ...]]]:
    """(image bytes, 0-based class indices) of every record.

    Raises:
        UsageError: DALI is not installed.
        SinkError: it cannot read the shard.
    """
    return _records(_dali(), paths, info)


def _records(
    dali: Any, paths: Sequence[Path], info: DatasetInfo
) -> Iterator[tuple[bytes, tuple[int, ...]]]:
    data = paths[0]
    size = data.stat().st_size
    with tempfile.TemporaryDirectory() as directory:
        if len(paths) > 1:
            index_path = paths[1]
            records = len(RecordIndex.load(index_path, size))
        else:
            index_path = Path(directory, "index.idx")
            with data.open("rb") as file:
                offsets = RecordIndex.scan(file, data, size).offsets
            with index_path.open("w", encoding="ascii") as index:
                index.writelines(f"{number}\t{offset}\n" for number, offset in enumerate(offsets))
            records = len(offsets)
        if not records:  # DALI refuses empty files
            return
        try:
            pipeline = _pipeline(dali, data, index_path)
            for _ in range(records):
                image, labels = (output.as_array()[0] for output in pipeline.run())
                yield image.tobytes(), _indices(labels.tolist(), multilabel=info.multilabel)
        except RuntimeError as error:
            said = str(error).strip().splitlines()
            raise SinkError(
                f"{data}: DALI cannot read it: {said[0] if said else error!r}"
            ) from error


def _indices(values: list[float], *, multilabel: bool) -> tuple[int, ...]:
    if multilabel or len(values) != 1:
        return tuple(index for index, value in enumerate(values) if value)
    return (int(values[0]),)


def _pipeline(dali: Any, data: Path, index: Path) -> Any:
    pipeline = dali.pipeline.Pipeline(batch_size=1, num_threads=1, device_id=None)
    with pipeline:
        pipeline.set_outputs(*dali.fn.readers.mxnet(path=[str(data)], index_path=[str(index)]))
    pipeline.build()
    return pipeline


def _dali() -> Any:
    with warnings.catch_warnings():
        # Of its dependencies' deprecations, at import only; which ones depends on the release.
        warnings.simplefilter("ignore")
        try:
            for part in ("fn", "pipeline"):
                import_module(f"nvidia.dali.{part}")
            return import_module("nvidia.dali")
        except ImportError as error:
            raise UsageError(
                f"reading RecordIO with DALI needs DALI ({error}): pip install nvidia-dali-cuda120"
            ) from error
