"""Datums, against bytes put together by hand.

The golden bytes follow from the field numbers of BVLC/caffe ``src/caffe/proto/caffe.proto`` and the
protobuf encoding: a tag is (number << 3) | type, fields ascending, as C++ writes them; which
fields are set follows from ``src/caffe/util/io.cpp``.
"""

from __future__ import annotations

from dataprep.sinks import lmdb_caffe

# data (4, bytes) "\xff\xd8\xff", label (5) 300, encoded (7) true: ReadFileToDatum
FILE = b"\x22\x03\xff\xd8\xff" + b"\x28\xac\x02" + b"\x38\x01"
# channels (1) 3, height (2) 2, width (3) 1, data (4), label (5) 0, encoded (7) false: CVMatToDatum.
# Two pixels, RGB (1, 2, 3) and (4, 5, 6): planes B, G, R.
PIXELS = b"\x08\x03\x10\x02\x18\x01" + b"\x22\x06\x03\x06\x02\x05\x01\x04" + b"\x28\x00\x38\x00"
GREY = b"\x08\x01\x10\x01\x18\x02" + b"\x22\x02\x07\x08" + b"\x28\x05\x38\x00"
VECTOR = b"\x08\x03\x10\x01\x18\x01" + b"\x22\x03\x00\x01\x01" + b"\x38\x00"


def test_the_bytes_are_caffes() -> None:
    assert lmdb_caffe.file_datum(b"\xff\xd8\xff", 300) == FILE
    assert lmdb_caffe.image_of(FILE) == (b"\xff\xd8\xff", 300, None)
    assert lmdb_caffe.pixels_datum(b"\1\2\3\4\5\6", (2, 1, 3), 0) == PIXELS
    assert lmdb_caffe.image_of(PIXELS) == (b"\1\2\3\4\5\6", 0, (2, 1, 3))
    assert lmdb_caffe.pixels_datum(b"\7\10", (1, 2, 1), 5) == GREY
    assert lmdb_caffe.image_of(GREY) == (b"\7\10", 5, (1, 2, 1))
    assert lmdb_caffe.vector_datum([0, 1, 1]) == VECTOR
