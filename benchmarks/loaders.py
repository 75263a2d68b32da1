"""One data loader with two workers, timed over and over: ``loaders KIND DIRECTORY``.

Each line on standard input is either ``{"random": …}``, which makes the loader and runs an epoch to
warm up, or ``{}``, which runs another; standard output says what it took. So programs of any
interpreter can take turns, epoch by epoch, without their start-up. Each gives batches of 64 images
and labels, decoded as its users decode.

``dataprep`` runs on any format. The others need their own library, and nothing of dataprep.
"""

from __future__ import annotations

import io
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

_BATCH = 64
_WORKERS = 2

Epoch = Callable[[], int]


def main(kind: str, directory: Path) -> None:
    """Do as the lines say until there are no more."""
    epoch: Epoch | None = None
    for line in sys.stdin:
        if asked := json.loads(line):
            epoch = None  # which ends the workers of the last one
            epoch = _KINDS[kind](directory, asked["random"])
            epoch()
        assert epoch is not None
        start = time.perf_counter()
        images = epoch()
        seconds = time.perf_counter() - start
        print(json.dumps({"images": images, "seconds": seconds, "worker": _largest_worker()}))
        sys.stdout.flush()


def _largest_worker() -> int:
    """Bytes that the largest child process has for itself."""
    found = [0]
    for child in multiprocessing.active_children():
        with suppress(OSError):  # it has ended meanwhile
            lines = Path(f"/proc/{child.pid}/smaps_rollup").read_text().splitlines()
            private = [line.split()[1] for line in lines if line.startswith("Private_")]
            found.append(sum(map(int, private)) * 1024)
    return max(found)


def _pixels(file: Any) -> np.ndarray:
    """As torchvision and most others decode; (height, width, channel)."""
    return np.array(Image.open(file).convert("RGB"))


def _tensor(file: Any) -> Any:
    """What torchvision's ``pil_to_tensor`` makes of it."""
    import torch

    return torch.from_numpy(_pixels(file)).permute(2, 0, 1)


def _of_bytes(encoded: bytes) -> Any:
    return _tensor(io.BytesIO(encoded))


def _torch_epochs(dataset: Any, random: bool | None) -> Epoch:
    """Of a `DataLoader`; ``random`` is None for data sets that have an order of their own."""
    from torch.utils.data import DataLoader

    loader = DataLoader(
        dataset,
        batch_size=_BATCH,
        shuffle=random,
        num_workers=_WORKERS,
        persistent_workers=True,
    )
    return lambda: sum(len(labels) for _, labels in loader)


class _Folder:
    """As torchvision's ``ImageFolder`` with Pillow reads plain files."""

    def __init__(self, directory: Path) -> None:
        classes = sorted(path for path in (directory / "train").iterdir())
        self.samples = [
            (str(path), label)
            for label, folder in enumerate(classes)
            for path in sorted(folder.iterdir())
        ]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, number: int) -> Any:
        path, label = self.samples[number]
        with open(path, "rb") as file:
            return _tensor(file), label


def _files(directory: Path, random: bool) -> Epoch:
    return _torch_epochs(_Folder(directory), random)


def _dataprep(directory: Path, random: bool) -> Epoch:
    import dataprep

    return _torch_epochs(dataprep.open(directory).to_torch(), random)


def _webdataset(directory: Path, _: bool) -> Epoch:
    """In sequence: it has no other order than that of a buffer."""
    import webdataset

    urls = sorted(map(str, directory.glob("train/*.tar")))
    dataset = webdataset.WebDataset(urls, shardshuffle=False).to_tuple("jpg", "cls")
    return _torch_epochs(dataset.map_tuple(_of_bytes, int), None)


def _grain(directory: Path, random: bool) -> Epoch:
    import grain

    from dataprep.sinks import DatasetInfo, tf_example

    class Decode(grain.transforms.Map):  # type: ignore[misc,unused-ignore]
        def map(self, record: bytes) -> Any:
            example = tf_example.decode(record, DatasetInfo())
            return _pixels(io.BytesIO(example.encoded)), example.class_index

    source = grain.sources.ArrayRecordDataSource(
        sorted(map(str, directory.glob("train/*.arrayrecord")))
    )

    def epoch() -> int:
        sampler = grain.samplers.IndexSampler(
            len(source),
            num_epochs=1,
            shuffle=random,
            seed=1,
            shard_options=grain.sharding.NoSharding(),
        )
        loader = grain.DataLoader(
            data_source=source,
            sampler=sampler,
            operations=[Decode(), grain.transforms.Batch(batch_size=_BATCH)],
            worker_count=_WORKERS,
        )
        return sum(len(labels) for _, labels in loader)

    return epoch


def _huggingface(directory: Path, random: bool) -> Epoch:
    """Copied into its cache, as `load_dataset` does for random access."""
    import datasets

    cache = directory.with_name("huggingface-cache")
    rows = datasets.load_dataset(str(directory), split="train", cache_dir=str(cache))
    rows = rows.select_columns(["image", "label"])
    rows = rows.cast_column("image", datasets.Image(decode=False))
    return _torch_epochs(_Rows(rows), random)


class _Rows:
    """Of Hugging Face's data set, a batch at once."""

    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitems__(self, numbers: list[int]) -> list[Any]:
        found = self.rows[numbers]
        images = [_of_bytes(image["bytes"]) for image in found["image"]]
        return list(zip(images, found["label"], strict=True))


def _mosaicml(directory: Path, random: bool) -> Epoch:
    from streaming.base import MDSWriter, StreamingDataset

    copy = directory.with_name("mds")
    if not copy.exists():
        partial = copy.with_name("mds.partial")
        with MDSWriter(out=str(partial), columns={"x": "bytes", "y": "int"}) as sink:
            for encoded, label in _all_files(directory):
                sink.write({"x": encoded, "y": label})
        partial.rename(copy)

    class Images(StreamingDataset):  # type: ignore[misc,valid-type,unused-ignore]
        def __getitem__(self, number: int) -> Any:
            found = super().__getitem__(number)
            return _of_bytes(found["x"]), found["y"]

    dataset = Images(local=str(copy), shuffle=random, batch_size=_BATCH)
    return _torch_epochs(dataset, None)


def _litdata(directory: Path, random: bool) -> Epoch:
    import litdata
    from litdata.streaming.cache import Cache

    copy = directory.with_name("litdata")
    if not copy.exists():
        partial = copy.with_name("litdata.partial")
        cache = Cache(str(partial), chunk_bytes="64MB")
        for number, (encoded, label) in enumerate(_all_files(directory)):
            cache[number] = {"x": encoded, "y": label}
        cache.done()
        cache.merge()
        partial.rename(copy)

    class Images(litdata.StreamingDataset):  # type: ignore[misc,unused-ignore]
        def __getitem__(self, number: Any) -> Any:
            found = super().__getitem__(number)
            return _of_bytes(found["x"]), found["y"]

    dataset = Images(str(copy), shuffle=random, drop_last=False)
    loader = litdata.StreamingDataLoader(
        dataset, batch_size=_BATCH, num_workers=_WORKERS, persistent_workers=True
    )
    return lambda: sum(len(labels) for _, labels in loader)


def _all_files(directory: Path) -> Iterator[tuple[bytes, int]]:
    for path, label in _Folder(directory).samples:
        yield Path(path).read_bytes(), label


_KINDS: dict[str, Callable[[Path, bool], Epoch]] = {
    "files": _files,
    "dataprep": _dataprep,
    "webdataset": _webdataset,
    "grain": _grain,
    "huggingface": _huggingface,
    "mosaicml": _mosaicml,
    "litdata": _litdata,
}

if __name__ == "__main__":
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    main(sys.argv[1], Path(sys.argv[2]))
