"""Caffe databases as other people's code reads them, to prove ours right; none of ours is used."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from dataprep.errors import UsageError

_BATCH = 16


def with_dali(paths: Sequence[Path]) -> Iterator[tuple[bytes, tuple[int, ...]]]:
    """(Image file's bytes, class indices) of every record, by NVIDIA DALI on the CPU.

    Args:
        paths: the images' database, then that of labels if there is one.

    Raises:
        UsageError: DALI is not installed.
    """
    images = _dali_records(paths[0])
    if len(paths) == 1:
        for data, label in images:
            yield data.tobytes(), (int(label.reshape(-1)[0]),)
        return
    for (data, _), (vector, _) in zip(images, _dali_records(paths[1]), strict=True):
        yield data.tobytes(), tuple(int(index) for index in vector.reshape(-1).nonzero()[0])


def _dali_records(path: Path) -> Iterator[tuple[Any, Any]]:
    """(Data, label) as arrays, in order."""
    import lmdb
    import numpy as np

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of DALI's own dependencies
            dali, function = import_module("nvidia.dali"), import_module("nvidia.dali.fn")
    except ImportError as error:
        raise UsageError(
            "NVIDIA DALI is not installed, with which to read this: pip install nvidia-dali-cuda120"
        ) from error
    with lmdb.open(str(path.parent), readonly=True, lock=False) as environment:
        if environment.stat()["entries"] == 0:
            return  # which DALI refuses
    pipeline = dali.Pipeline(batch_size=_BATCH, num_threads=1, device_id=None)
    with pipeline:
        pipeline.set_outputs(*function.readers.caffe(path=[str(path.parent)], name="Reader"))
    pipeline.build()
    count = pipeline.reader_meta("Reader")["epoch_size"]
    for start in range(0, count, _BATCH):
        data, labels = pipeline.run()
        for index in range(min(_BATCH, count - start)):
            yield np.asarray(data.at(index)), np.asarray(labels.at(index))


def with_lmdb(paths: Sequence[Path]) -> Iterator[tuple[bytes, tuple[int, ...]]]:
    """(Data, class indices) of every record, by lmdb and caffe.proto's Datum alone.

    Pixels come back as (height, width, channel), RGB.
    """
    images = _datums(paths[0])
    if len(paths) == 1:
        for datum in images:
            yield _pixels(datum), (datum.label,)
        return
    for datum, vector in zip(images, _datums(paths[1]), strict=True):
        yield _pixels(datum), tuple(index for index, one in enumerate(vector.data) if one)


def _datums(path: Path) -> Iterator[Any]:
    import lmdb

    from dataprep_schemas import caffe_pb2

    with (
        lmdb.open(str(path.parent), readonly=True, lock=False) as environment,
        environment.begin() as transaction,
    ):
        for _, value in transaction.cursor():
            yield caffe_pb2.Datum.FromString(value)


def _pixels(datum: Any) -> bytes:
    import numpy as np

    if datum.encoded:
        return bytes(datum.data)
    planes = np.frombuffer(datum.data, np.uint8)
    planes = planes.reshape(datum.channels, datum.height, datum.width)
    pixels: bytes = planes.transpose(1, 2, 0)[:, :, ::-1].tobytes()
    return pixels
