"""The loops that users of other tools write, each a program of its own.

``python -m benchmarks.peer_loops TOOL RAW OUT SIZE PROCESSES``. The image is stored as its file is,
or, with a SIZE, as Pillow resizes the shorter side to it and encodes it with quality 95. TOOL is

* ``webdataset``: `ShardWriter` as its documentation uses it, 1000 samples a shard. It is one
  process, so it is started by hand for a part of the files on each core;
* ``mds``: MosaicML's `MDSWriter` as its script for ImageNet uses it: Pillow reads the header of
  every image; shards of 64 MiB with SHA-1 and xxHash; a directory for each process, `merge_index`.
  The column is ``bytes``: what ``jpeg`` takes differs between versions;
* ``litdata``: LitData's `optimize`, chunks of 64 MiB;
* ``parquet``: `Dataset.from_generator` of Hugging Face, which fills its cache, then `to_parquet`;
* ``tfds``: `store_as_tfds_dataset`, which is one process. TFDS's `ImageFolder` writes nothing: it
  reads the files where they are.

Needs nothing of dataprep.
"""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

_SAMPLES = 1000  # a tar
_SHARD_BYTES = 1 << 26
_COLUMNS = {"i": "int", "x": "bytes", "y": "int"}


@dataclass(frozen=True)
class Job:
    """Files, the number of each class, where to write, the shorter side or 0, and processes."""

    paths: Sequence[str]
    labels: dict[str, int]
    out: str
    size: int
    processes: int

    def label(self, path: str) -> int:
        """The number of its class."""
        return self.labels[Path(path).parent.name]

    def each(self, write: Callable[[Job], None], start: str) -> None:
        """Write a part of the files in each process, and each in a directory of its own."""
        parts = [
            replace(self, paths=self.paths[number :: self.processes], out=f"{self.out}/{number}")
            for number in range(self.processes)
        ]
        context = multiprocessing.get_context(start)
        with ProcessPoolExecutor(self.processes, context) as pool:
            list(pool.map(write, parts))


def main(tool: str, raw: Path, out: str, size: int, processes: int) -> None:
    """Convert a tree; size 0 passes images through."""
    paths = sorted(map(str, raw.glob("train/*/*.JPEG")))
    labels = {path.name: label for label, path in enumerate(sorted((raw / "train").iterdir()))}
    _TOOLS[tool](Job(paths, labels, out, size, processes))


def _webdataset(job: Job) -> None:
    job.each(_write_tars, "spawn")  # new interpreters, as if started by hand


def _write_tars(job: Job) -> None:
    import webdataset

    Path(job.out).mkdir(parents=True, exist_ok=True)
    pattern = f"{job.out}/train-%06d.tar"
    with webdataset.ShardWriter(pattern, maxcount=_SAMPLES, verbose=0) as sink:
        for path in job.paths:
            file = Path(path)
            sample = {
                "__key__": file.stem,
                "jpg": _encoded(path, job.size),
                "cls": job.label(path),
                "json": {"synset": file.parent.name, "filename": file.name},
            }
            sink.write(sample)


def _mds(job: Job) -> None:
    from streaming.base.util import merge_index

    job.each(_write_mds, "fork")
    merge_index(job.out, keep_local=True)


def _write_mds(job: Job) -> None:
    from PIL import Image
    from streaming.base import MDSWriter

    options = {"columns": _COLUMNS, "hashes": ["sha1", "xxh64"], "size_limit": _SHARD_BYTES}
    with MDSWriter(out=job.out, **options) as sink:
        for number, path in enumerate(job.paths):
            with Image.open(path):  # as that script does
                sink.write({"i": number, "x": _encoded(path, job.size), "y": job.label(path)})


def _litdata(job: Job) -> None:
    import litdata

    litdata.optimize(
        fn=partial(_sample, replace(job, paths=())),
        inputs=list(job.paths),
        output_dir=job.out,
        num_workers=job.processes,
        chunk_bytes=_SHARD_BYTES,
    )


def _sample(job: Job, path: str) -> dict[str, Any]:
    return {"image": _encoded(path, job.size), "label": job.label(path)}


def _parquet(job: Job) -> None:
    _dataset(job).to_parquet(f"{job.out}/train.parquet")


def _dataset(job: Job) -> Any:
    from datasets import ClassLabel, Dataset, Features, Image

    def generate(paths: Sequence[str]) -> Iterator[dict[str, Any]]:
        for path in paths:
            yield {"image": {"bytes": _encoded(path, job.size)}, "label": job.label(path)}

    return Dataset.from_generator(
        generate,
        features=Features({"image": Image(), "label": ClassLabel(names=list(job.labels))}),
        gen_kwargs={"paths": list(job.paths)},
        num_proc=job.processes,
        cache_dir=f"{job.out}/cache",
    )


def _tfds(job: Job) -> None:
    from tensorflow_datasets import dataset_builders, features

    images = ((path, _sample(job, path)) for path in job.paths)
    dataset_builders.store_as_tfds_dataset(
        name="photographs",
        version="1.0.0",
        features=features.FeaturesDict(
            {"image": features.Image(), "label": features.ClassLabel(names=list(job.labels))}
        ),
        split_datasets={"train": images},
        data_dir=job.out,
    )


_TOOLS: dict[str, Callable[[Job], None]] = {
    "webdataset": _webdataset,
    "mds": _mds,
    "litdata": _litdata,
    "parquet": _parquet,
    "tfds": _tfds,
}


def _encoded(path: str, size: int) -> bytes:
    if not size:
        return Path(path).read_bytes()
    from PIL import Image

    with Image.open(path) as image:
        factor = size / min(image.size)
        shape = round(image.width * factor), round(image.height * factor)
        smaller = image.convert("RGB").resize(shape, Image.Resampling.BILINEAR)
    encoded = BytesIO()
    smaller.save(encoded, "JPEG", quality=95)
    return encoded.getvalue()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
