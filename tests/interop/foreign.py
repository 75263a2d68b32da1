"""What a reader of others gives: ``python foreign.py FORMAT READER ANSWER DIR [DIR]``.

Its own interpreter runs this, on a set of one label an image, and one of several. ANSWER gets JSON:
of each the version, and the records in their order, a dictionary each, under our names; boxes are
``[xmin, ymin, xmax, ymax]``. What the reader does not give is not in it, and bytes are
``{"bytes": text}``. Each is asked, as its documentation says, for everything that it can give.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

Record = dict[str, Any]
FIELDS = ("boxes", "box_labels", "captions", "age", "weight", "view")
SIDES = ("xmin", "ymin", "xmax", "ymax")
CLASSES = 4
TEXTS = {"key": "image/key", "captions": "image/caption", "view": "attribute/view"}
NUMBERS = {"age": "attribute/age", "weight": "attribute/weight"}


# --- TFRecord, ArrayRecord ---


def tf_data(place: Path, several: bool) -> Iterator[Record]:
    import tensorflow as tf

    files = tf.data.Dataset.list_files(f"{place}/train/train-*", shuffle=False)
    yield from _parsed(files.flat_map(tf.data.TFRecordDataset), several)


def _parsed(records: Iterable[Any], several: bool) -> Iterator[Record]:
    import tensorflow as tf

    one, many = tf.io.FixedLenFeature, tf.io.RaggedFeature
    texts = (one((), tf.string), many(tf.string), one((), tf.string, "none"))
    features = {
        "image/encoded": one((), tf.string),
        "image/class/label": one((CLASSES,) if several else (), tf.int64),
        **dict(zip(TEXTS.values(), texts, strict=True)),
        NUMBERS["age"]: one((), tf.int64, -1),
        NUMBERS["weight"]: one((), tf.float32, -1.0),
        **{f"image/object/bbox/{side}": many(tf.float32) for side in SIDES},
        "image/object/bbox/label": many(tf.int64),
    }
    for record in records:
        found = tf.io.parse_single_example(record, features)
        yield _of_example({name: value.numpy() for name, value in found.items()}, several)


def tfds(place: Path, several: bool) -> Iterator[Record]:
    import numpy as np
    import tensorflow_datasets as library

    one, number = library.features.Text(), library.features.Scalar(np.int64)
    sequence, decimal = library.features.Sequence, library.features.Scalar(np.float32)
    features = {
        "image/encoded": library.features.Text(),
        "image/class/label": sequence(number, CLASSES) if several else number,
        **dict(zip(TEXTS.values(), (one, sequence(one), one), strict=True)),
        NUMBERS["age"]: number,
        NUMBERS["weight"]: decimal,
        **{f"image/object/bbox/{side}": sequence(decimal) for side in SIDES},
        "image/object/bbox/label": sequence(number),
    }
    optional = (TEXTS["view"], *NUMBERS.values())
    for left_out in ((), optional):  # at last, without what is missing somewhere
        named = place / f"links-{len(left_out)}"  # it wants the format in the names of shards
        named.mkdir()
        for path in _files(place, "train/train-*"):
            (named / Path(path).name.replace("train-", "set-train.tfrecord-")).symlink_to(path)
        asked = {name: kind for name, kind in features.items() if name not in left_out}
        try:
            library.folder_dataset.write_metadata(
                data_dir=named,
                features=library.features.FeaturesDict(asked),
                split_infos=[library.core.SplitInfo(name="train", shard_lengths=[14], num_bytes=0)],
                filename_template="{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}",
            )
            rows = list(
                library.builder_from_directory(named).as_dataset("train").as_numpy_iterator()
            )
        except Exception as error:
            if left_out:
                raise
            yield {"raises": str(error)}
            continue
        for row in rows:
            yield _of_example(dict(row), several)
        return


def _of_example(found: Record, several: bool) -> Record:
    sides = [found[f"image/object/bbox/{side}"] for side in SIDES]
    return {
        "image": found["image/encoded"],
        "labels" if several else "label": found["image/class/label"],
        **{name: found[key] for name, key in (TEXTS | NUMBERS).items() if key in found},
        "boxes": [[float(side) for side in box] for box in zip(*sides, strict=True)],
        **({"box_labels": found["image/object/bbox/label"]} if several else {}),
    }


def dali(place: Path, several: bool, *, form: str) -> Iterator[Record]:
    from nvidia.dali import Pipeline, fn, tfrecord

    names: list[str] = ["image", "labels" if several else "label"]
    more: list[str] = []

    def tfrecords() -> list[Any]:
        one, many = tfrecord.FixedLenFeature, tfrecord.VarLenFeature
        label = one([CLASSES if several else 1], tfrecord.int64, -1)
        features = {"image/encoded": one((), tfrecord.string, ""), "image/class/label": label}
        for key in TEXTS.values():
            features[key] = one((), tfrecord.string, "none")
        features[NUMBERS["age"]] = one((), tfrecord.int64, -1)
        features[NUMBERS["weight"]] = one((), tfrecord.float32, -1.0)
        for side in SIDES:
            features[f"image/object/bbox/{side}"] = many(tfrecord.float32, 0.0)
        features["image/object/bbox/label"] = many(tfrecord.int64, 0)
        more.extend(features)
        shards, indexes = (_files(place, f"{it}train/train-*") for it in ("", "index/"))
        read = fn.readers.tfrecord(path=shards, index_path=indexes, features=features)
        return [read[name] for name in features]

    def outputs() -> list[Any]:
        if form == "tfrecord":
            return tfrecords()
        if form == "webdataset":
            names[1] = "json" if several else "label"
            names.extend([] if several else ["captions", "json"])
            parts = ["jpg", "json"] if several else ["jpg", "cls", "txt", "json"]
            tars, indexes = _files(place, "train/*.tar"), _files(place, "index/train/*.idx")
            return list(fn.readers.webdataset(paths=tars, index_paths=indexes, ext=parts))
        if form == "recordio":
            record, index = [str(place / "train.rec")], [str(place / "train.idx")]
            return list(fn.readers.mxnet(path=record, index_path=index))
        return list(fn.readers.caffe(path=[str(place / "train_lmdb")]))

    pipeline = Pipeline(batch_size=1, num_threads=1, device_id=None)
    with pipeline:
        pipeline.set_outputs(*outputs())
    pipeline.build()
    for _ in range(14):
        values = [output.at(0) for output in pipeline.run()]
        if more:
            yield _of_example(dict(zip(more, values, strict=True)), several)
            continue
        record = dict(zip(names, values, strict=True))
        text = record.pop("json", None)
        if text is not None:
            record |= _said(json.loads(bytes(text)), several)
        yield record


def grain(place: Path, several: bool) -> Iterator[Record]:
    import grain as library

    files = _files(place, "train/*.arrayrecord")
    source = library.sources.ArrayRecordDataSource(files)
    yield from _parsed(library.MapDataset.source(source), several)


# --- WebDataset ---


def _said(said: Record, several: bool) -> Record:
    """Our names of what a sample's ``json`` says."""
    values = {**said, **(said.get("attributes") or {})}
    names = ("key", *FIELDS, *(["labels"] if several else []))
    return {name: values[name] for name in names if name in values}


def webdataset(place: Path, several: bool) -> Iterator[Record]:
    import webdataset as library

    read = library.WebDataset(_files(place, "train/*.tar"), shardshuffle=False)
    for sample in read.decode():
        label = {} if several else {"label": sample["cls"]}
        yield {"image": sample["jpg"], **label, **_said(sample["json"], several)}


def datasets_webdataset(place: Path, several: bool, features: Any = None) -> Iterator[Record]:
    import datasets as library

    files = f"{place}/train/*.tar"
    rows = library.load_dataset("webdataset", data_files=files, split="train", features=features)
    for row in rows.cast_column("jpg", library.Image(decode=False)):
        label = {} if several else {"label": row["cls"]}
        yield {"image": row["jpg"]["bytes"], **label, **_said(row["json"], several)}


def datasets_typed(place: Path, several: bool) -> Iterator[Record]:
    """With the types that docs/trainers.md tells, and the set's captions and attributes."""
    from datasets import Features, Image, Value

    text, number = Value("string"), Value("int64")
    said = {"key": text, "labels": [number], "class_name": text, "synset": text, "format": text}
    said |= {"colorspace": text, "height": number, "width": number}
    said |= {"boxes": [[Value("float64")]], "box_labels": [number], "captions": [text]}
    said["attributes"] = {"age": number, "weight": Value("float64"), "view": text}
    parts = {"__key__": text, "__url__": text, "jpg": Image(), "txt": text, "json": said}
    parts |= {} if several else {"cls": number}
    return datasets_webdataset(place, several, Features(parts))


def energon(place: Path, several: bool) -> Iterator[Record]:
    words = ["ImageClassificationSample", "--field-map", '{"image": "jpg", "label": "cls"}']
    for sample in _energon(place, words, []):
        yield {"image": "decoded", "label": sample.label, "key": sample.__key__}


def energon_cooked(place: Path, several: bool) -> Iterator[Record]:
    import megatron.energon as library

    seen: list[Any] = []

    @library.stateless  # type: ignore[untyped-decorator]
    def cook(raw: Any) -> Any:
        seen.append(raw)
        return library.TextSample(**library.basic_sample_keys(raw), text="")

    for _ in _energon(place, ["CrudeWebdataset"], [library.Cooker(cook)]):
        sample = seen.pop()
        label = {} if several else {"label": sample["cls"]}
        yield {"image": "decoded", **label, **_said(sample["json"], several)}


def _energon(place: Path, words: list[str], cooks: list[Any]) -> Iterable[Any]:
    import megatron.energon as library

    class Encoder(library.DefaultTaskEncoder):  # type: ignore[misc]  # of a library without types
        cookers = cooks

    program = [sys.executable, "-m", "megatron.energon.cli.main", "prepare", "--non-interactive"]
    more = ["--split-ratio", "1,0,0", f"{place}/train", "--sample-type", *words]
    subprocess.run([*program, *more], check=True, capture_output=True)
    alone = library.WorkerConfig(rank=0, world_size=1, num_workers=0)
    asked = {"split_part": "train", "batch_size": None, "task_encoder": Encoder()}
    found = library.get_val_dataset(f"{place}/train", worker_config=alone, **asked)
    return library.get_loader(found)  # type: ignore[no-any-return]  # of samples


# --- Parquet ---


def datasets_parquet(place: Path, several: bool) -> Iterable[Record]:
    import datasets as library

    rows = library.load_dataset(str(place), split="train")
    return map(_row, rows.cast_column("image", library.Image(decode=False)))


def pandas(place: Path, several: bool) -> Iterable[Record]:
    import pandas as library

    return map(_row, library.read_parquet(_files(place, "data/*.parquet")[0]).to_dict("records"))


def polars(place: Path, several: bool) -> Iterable[Record]:
    import polars as library

    return map(_row, library.read_parquet(f"{place}/data/*.parquet").to_dicts())


def duckdb(place: Path, several: bool) -> Iterator[Record]:
    import duckdb as library

    found = library.sql(f"SELECT * FROM '{place}/data/*.parquet'")
    assert found is not None
    for row in found.fetchall():
        yield _row(dict(zip(found.columns, row, strict=True)))


def lance(place: Path, several: bool) -> Iterable[Record]:
    import lance as library
    from pyarrow import parquet

    table = parquet.read_table(_files(place, "data/*.parquet")[0])
    return map(_row, library.write_dataset(table, f"{place}/lance").to_table().to_pylist())


def litdata(place: Path, several: bool) -> Iterable[Record]:
    import litdata as library
    from litdata.streaming.item_loader import ParquetLoader

    library.index_parquet_dataset(f"{place}/data")
    read = library.StreamingDataset(f"{place}/data", item_loader=ParquetLoader())
    return map(_row, (read[number] for number in range(len(read))))


def grain_parquet(place: Path, several: bool) -> Iterable[Record]:
    import grain as library

    files = _files(place, "data/*.parquet")
    return map(_row, library.experimental.ParquetIterDataset(files[0]))


def petastorm(place: Path, several: bool) -> Iterator[Record]:
    import petastorm as library

    files = [f"file://{path}" for path in _files(place, "data/*.parquet")]
    for asked in (None, ["image", "key", "label", *FIELDS[3:]]):  # at last, without lists
        more = {"schema_fields": asked, "shuffle_row_groups": False, "workers_count": 1}
        try:
            with library.make_batch_reader(files, **more) as read:
                batches = [batch._asdict() for batch in read]
        except RuntimeError as error:
            if asked:
                raise
            yield {"raises": str(error)}
            continue
        for columns in batches:
            for values in zip(*columns.values(), strict=True):
                yield _row(dict(zip(columns, values, strict=True)))
        return


def _row(row: Record) -> Record:
    names = ("key", "label", "labels", *FIELDS)
    image = {"image": row["image"]["bytes"]} if "image" in row else {}
    return image | {name: row[name] for name in names if name in row}


# --- RecordIO, LMDB, HDF5 ---


def mxnet_iterator(place: Path, several: bool, *, width: int = 1) -> Iterator[Record]:
    import mxnet as library

    iterator = library.io.ImageRecordIter(
        path_imgrec=str(place / "train.rec"),
        path_imgidx=str(place / "train.idx"),
        data_shape=(3, 8, 8),
        label_width=width if several else 1,
        batch_size=1,
        verbose=False,
    )
    for batch in iterator:
        yield {"image": "decoded", "labels" if several else "label": batch.label[0].asnumpy()[0]}


def mxnet(place: Path, several: bool) -> Iterator[Record]:
    import mxnet as library

    paths = str(place / "train.idx"), str(place / "train.rec")
    read = library.recordio.MXIndexedRecordIO(*paths, "r")
    for key in read.keys:
        header, image = library.recordio.unpack(read.read_idx(key))
        yield {"image": image, "key": key, "labels" if several else "label": header.label}


def lmdb(place: Path, several: bool) -> Iterator[Record]:
    import lmdb as library

    from dataprep_schemas.caffe_pb2 import Datum

    environment = library.open(str(place / "train_lmdb"), readonly=True, lock=False)
    with environment, environment.begin() as transaction:
        for key, value in transaction.cursor():
            datum = Datum.FromString(value)
            yield {"image": datum.data, "key": key, "label": datum.label}


def h5py(place: Path, several: bool) -> Iterator[Record]:
    import h5py as library

    with library.File(place / "train.h5") as file:
        labels = file["labels" if "labels" in file else "label"]
        for number, (key, label) in enumerate(zip(file["keys"], labels, strict=True)):
            record = {"key": key, "labels" if several else "label": label}
            if "offsets" in file:
                start, end = file["offsets"][number : number + 2]
                record["image"] = bytes(file["images"][start:end])
            elif "images" in file:
                record["image"] = file["images"][number].tobytes()
            else:  # float32, of B G R
                pixels = file["data"][number][::-1].transpose(1, 2, 0)
                record["image"] = pixels.astype("uint8").tobytes()
            for name, offsets in (("boxes", "box_offsets"), ("captions", "caption_offsets")):
                if name in file:
                    start, end = file[offsets][number : number + 2]
                    record[name] = file[name][start:end]
                    if name == "boxes" and "box_labels" in file:
                        record["box_labels"] = file["box_labels"][start:end]
            attributes = file.get("attributes", {})
            yield record | {name: values[number] for name, values in attributes.items()}


def _files(place: Path, pattern: str) -> list[str]:
    return sorted(map(str, place.glob(pattern)))


Read = Callable[[Path, bool], Iterable[Record]]
DALI: dict[tuple[str, str], tuple[str, Read]] = {
    (form, "DALI"): ("nvidia-dali-cuda120", partial(dali, form=form))
    for form in ("tfrecord", "webdataset", "recordio", "lmdb")
}
READERS: Mapping[tuple[str, str], tuple[str, Read]] = {
    ("tfrecord", "tf.data"): ("tensorflow-cpu", tf_data),
    ("tfrecord", "TFDS"): ("tensorflow-datasets", tfds),
    ("arrayrecord", "Grain, then `tf.io`"): ("grain", grain),
    ("webdataset", "webdataset"): ("webdataset", webdataset),
    ("webdataset", "datasets"): ("datasets", datasets_webdataset),
    ("webdataset", "datasets, `features=`"): ("datasets", datasets_typed),
    ("webdataset", "Energon, `ImageClassificationSample`"): ("megatron-energon", energon),
    ("webdataset", "Energon, a `Cooker`"): ("megatron-energon", energon_cooked),
    ("parquet", "datasets"): ("datasets", datasets_parquet),
    ("parquet", "pandas"): ("pandas", pandas),
    ("parquet", "polars"): ("polars", polars),
    ("parquet", "DuckDB"): ("duckdb", duckdb),
    ("parquet", "Lance"): ("pylance", lance),
    ("parquet", "LitData"): ("litdata", litdata),
    ("parquet", "Grain"): ("grain", grain_parquet),
    ("parquet", "Petastorm"): ("petastorm", petastorm),
    ("recordio", "MXNet, `mx.recordio`"): ("mxnet", mxnet),
    ("recordio", "MXNet, `ImageRecordIter`"): ("mxnet", mxnet_iterator),
    ("recordio", "MXNet, `label_width=` classes"): (
        "mxnet",
        partial(mxnet_iterator, width=CLASSES),
    ),
    ("lmdb", "lmdb, `caffe.proto`"): ("lmdb", lmdb),
    ("hdf5", "h5py"): ("h5py", h5py),
    ("hdf5-arrays", "h5py"): ("h5py", h5py),
    ("hdf5-caffe", "h5py"): ("h5py", h5py),
    **DALI,
}
"""The name of the package whose version counts, and how it is read, by format and reader."""


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, bytes):
        return {"bytes": value.decode()}
    if type(value).__module__.startswith("nvidia"):
        import numpy as np

        value = np.array(value)
    if hasattr(value, "tolist"):
        uint8s = str(getattr(value, "dtype", "")) == "uint8" and getattr(value, "ndim", 0) == 1
        value = {"uint8s": value.tolist()} if uint8s else value.tolist()
        return value if uint8s else _plain(value)
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value


def run(format_name: str, reader: str, place: Path, *, several: bool) -> dict[str, Any]:
    package, read = READERS[format_name, reader]
    result: dict[str, Any] = {"version": version(package), "records": []}
    try:
        for record in read(place, several):
            if not isinstance(record.get("image", ""), str):
                record["image"] = hashlib.sha256(_bytes(record["image"])).hexdigest()
            result["records"].append(_plain(record))
    except Exception as error:  # noqa: BLE001  # whatever it is, the page says it
        result["error"] = f"{type(error.__cause__ or error).__name__}: {error.__cause__ or error}"
    return result


def _bytes(image: Any) -> bytes:
    return bytes(image) if isinstance(image, bytes) else bytes(bytearray(_plain(image)["uint8s"]))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    format_name, reader, answer, *places = sys.argv[1:]
    found = [
        run(format_name, reader, Path(place), several=several)
        for several, place in zip((False, True), places, strict=False)
    ]
    Path(answer).write_text(json.dumps(found), encoding="utf-8")
