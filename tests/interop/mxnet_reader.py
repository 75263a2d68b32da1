"""Run by MXNet's own interpreter, which needs NumPy before 1.24: what it finds in a .rec file.

    python mxnet_reader.py RECORDS INDEX LABEL_WIDTH CROP

prints JSON: ``python``, what ``mx.recordio`` gives, record by record; ``offsets``, where it finds
them; and ``iterators``, what ``mx.io.ImageRecordIter`` gives in several ways, the middle of every
image as it decodes it.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import sys
from typing import Any

import mxnet as mx
import numpy as np
from mxnet.base import _LIB, check_call

WAYS: dict[str, dict[str, Any]] = {
    "with-index": {},
    "without-index": {},
    "shuffled": {"shuffle": True, "seed": 7},
    "part-0": {"num_parts": 2, "part_index": 0},
    "part-1": {"num_parts": 2, "part_index": 1},
    "part-0-without-index": {"num_parts": 2, "part_index": 0},
    "part-1-without-index": {"num_parts": 2, "part_index": 1},
}


def with_recordio(records: str, index: str) -> list[dict[str, Any]]:
    found = []
    reader = mx.recordio.MXIndexedRecordIO(index, records, "r")
    for key in reader.keys:
        header, encoded = mx.recordio.unpack(reader.read_idx(key))
        found.append(
            {
                "key": key,
                "id": [header.id, header.id2],
                "labels": np.atleast_1d(header.label).tolist(),
                "sha256": hashlib.sha256(encoded).hexdigest(),
            }
        )
    reader.close()
    return found


def offsets(records: str) -> list[int]:
    """As MXNet's tools/rec2idx.py finds them."""
    reader = mx.recordio.MXRecordIO(records, "r")
    found = []
    position = ctypes.c_size_t()
    while True:
        check_call(_LIB.MXRecordIOReaderTell(reader.handle, ctypes.byref(position)))
        if reader.read() is None:
            break
        found.append(position.value)
    reader.close()
    return found


def with_iterator(
    records: str, index: str, label_width: int, crop: int, options: dict[str, Any]
) -> list[dict[str, Any]]:
    iterator = mx.io.ImageRecordIter(
        path_imgrec=records,
        path_imgidx=index,
        data_shape=(3, crop, crop),
        label_width=label_width,
        batch_size=1,
        round_batch=False,
        preprocess_threads=2,
        verbose=False,
        **options,
    )
    return [
        {
            "labels": batch.label[0].asnumpy().reshape(-1).tolist(),
            "pixels": batch.data[0].asnumpy()[0].transpose(1, 2, 0).astype(int).tolist(),
        }
        for batch in iterator
    ]


def main(records: str, index: str, label_width: str, crop: str) -> None:
    result: dict[str, Any] = {"python": with_recordio(records, index), "offsets": offsets(records)}
    result["iterators"] = {
        way: with_iterator(
            records, "" if "without" in way else index, int(label_width), int(crop), options
        )
        for way, options in WAYS.items()
    }
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
