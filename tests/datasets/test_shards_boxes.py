"""Boxes in what others have packed: classes and sides as their tools write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

import dataprep
from dataprep.errors import SourceError
from dataprep_schemas import example_pb2
from tests.datasets.test_shards_fields import example, record, scanned, tar, tfrecord
from tests.fuzz.raw_readers import picture

Seen = list[tuple[list[str], list[list[float]], list[str]]]


def stored(raw: Path, out: Path, **options: Any) -> tuple[list[str], Seen]:
    """The classes; of each image, in the order of keys, its labels, boxes and what they show."""
    dataprep.prepare("shards", raw=raw, out=out, **options)
    with dataprep.open(out, "train") as records:
        names = [identifier for identifier, _ in records.classes]
        found = [
            (
                [names[it] for it in one.labels],
                [[round(side, 4) for side in box] for box in one.fields.get("boxes", ())],
                [names[it] for it in one.fields.get("box_labels", ())],
            )
            for one in sorted(records, key=lambda it: it.key)
        ]
    return names, found


def objects(
    number: int, boxes: list[list[float]], labels: list[int], texts: list[bytes] | None = None
) -> bytes:
    """As create_pascal_tf_record.py of TensorFlow's models writes them."""
    sides = dict(zip(("xmin", "ymin", "xmax", "ymax"), zip(*boxes, strict=True), strict=True))
    said = {f"image__object__bbox__{side}": [*map(float, it)] for side, it in sides.items()}
    found = example(
        number,
        image__filename=b"%d.jpg" % number,
        image__height=[12],
        image__width=[16],
        image__object__class__label=labels,
        image__object__difficult=[0] * len(labels),
        **said,
    )
    if texts is None:
        return found
    message = example_pb2.Example.FromString(found)
    message.features.feature["image/object/class/text"].bytes_list.value.extend(texts)
    return message.SerializeToString()


TWO = [[0.25, 0.5, 0.75, 1.0], [0.0, 0.0, 0.5, 0.25]]


def test_examples_of_the_object_detection_api(tmp_path: Path) -> None:
    texts = [b"person", b"dog"]
    raw = tfrecord(
        tmp_path / "raw", [objects(0, TWO, [1, 3], texts), objects(1, TWO[:1], [2], [b"cat"])]
    )
    classes, found = stored(raw, tmp_path / "out")
    assert classes == ["person", "cat", "dog"]
    assert found == [
        (["person", "dog"], TWO, ["person", "dog"]),
        (["cat"], TWO[:1], ["cat"]),
    ]
    _, said = scanned(raw)
    assert "boxes as TensorFlow's Object Detection API has them from image/object/class/la" in said


def test_examples_without_words_count_from_one(tmp_path: Path) -> None:
    raw = tfrecord(tmp_path / "raw", [objects(0, TWO, [1, 2]), objects(1, TWO[:1], [2])])
    classes, found = stored(raw, tmp_path / "out")
    assert (classes, found[1]) == (["1", "2"], (["2"], TWO[:1], ["2"]))


def test_records_of_mxnet_s_detection(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    rows = [
        (2, 5, 1, 0.25, 0.5, 0.75, 1, 0, 0, 0, 0.5, 0.25),
        (4, 6, 16, 12, 0, 0.5, 0.5, 1.25, 1, 0, -1, -1, -1, -1, -1, -1),  # cut off; filled up
        (2, 5, 2, 0.5, 0.5, 0.5, 1),  # without an area
    ]
    images = [record(number, row, picture(number)) for number, row in enumerate(rows)]
    (raw / "train.rec").write_bytes(b"".join(images))
    classes, found = stored(raw, tmp_path / "out")
    assert classes == ["0", "1", "2"]
    assert found == [
        (["0", "1"], TWO, ["1", "0"]),
        (["0"], [[0.5, 0.5, 1.0, 1.0]], ["0"]),
        (["2"], [], []),
    ]
    scan, _ = scanned(raw)
    assert dict(scan.counts) == {
        "boxes cut off at the edge of their image": 1,
        "boxes without an area, left out": 1,
    }


FEATURES = {
    "image": {"_type": "Image"},
    "objects": {
        "bbox": {"feature": {"feature": {"dtype": "float32", "_type": "Value"}, "_type": "List"}},
        "category": {"feature": {"names": ["cat", "dog"], "_type": "ClassLabel"}, "_type": "List"},
    },
}


def test_objects_of_hugging_face_in_parquet(tmp_path: Path) -> None:
    cells = [
        {"bbox": [[4.0, 6.0, 8.0, 6.0], [0.0, 0.0, 8.0, 3.0]], "category": [1, 0]},
        {"bbox": [], "category": []},
    ]
    columns = {
        "image": [{"bytes": picture(number), "path": f"{number}.jpg"} for number in (0, 1)],
        "width": [16, 16],
        "height": [12, 12],
        "objects": cells,
    }
    said = {"huggingface": json.dumps({"info": {"features": FEATURES}})}
    (tmp_path / "raw").mkdir()
    table = pa.table(columns).replace_schema_metadata(said)
    parquet.write_table(table, tmp_path / "raw/train.parquet")
    classes, found = stored(tmp_path / "raw", tmp_path / "out")
    assert classes == ["cat", "dog"]
    assert found == [(["cat", "dog"], TWO, ["dog", "cat"]), ([], [], [])]


def test_objects_in_json_of_webdataset(tmp_path: Path) -> None:
    said = {"objects": [{"bbox": [4, 6, 8, 6], "label": "dog"}], "width": 16, "height": 12}
    members = {"a.jpg": picture(), "a.json": json.dumps(said).encode()}
    assert stored(tar(tmp_path / "raw", members), tmp_path / "out") == (
        ["dog"],
        [(["dog"], TWO[:1], ["dog"])],
    )


@pytest.mark.parametrize(("boxes", "labels"), [(TWO, [1]), ([[0.1, float("nan"), 0.5, 0.5]], [1])])
def test_boxes_that_are_wrong_name_their_sample(
    boxes: list[list[float]], labels: list[int], tmp_path: Path
) -> None:
    raw = tfrecord(tmp_path / "raw", [objects(0, TWO, [1, 2]), objects(1, boxes, labels)])
    with pytest.raises(
        SourceError, match=r"train\.tfrecord, 1\.jpg: image/object/class/label, .*no"
    ):
        stored(raw, tmp_path / "out")
