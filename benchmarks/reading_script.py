"""One data loader with two workers, timed over and over: ``reading_script KIND DIRECTORY``.

Each line on standard input is either ``{"decoded": …, "random": …}``, which makes the loader and
runs an epoch to warm up, or ``{}``, which runs another; standard output says what it took. So
programs of any interpreter can take turns, epoch by epoch, without their start-up. Each gives
batches of 64: of what an image's bytes are in number, or of pixels, as its users decode.

``dataprep`` runs on any format. The others need their own library, and nothing of dataprep.
"""

from __future__ import annotations

import io
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
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
            epoch = _KINDS[kind](directory, asked["decoded"], asked["random"])
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


def _pixels(encoded: Any) -> np.ndarray:
    """As torchvision and most others decode; (height, width, channel)."""
    return np.array(Image.open(io.BytesIO(encoded)).convert("RGB"))


def _tensor(encoded: Any) -> Any:
    """What torchvision's ``pil_to_tensor`` makes of it."""
    import torch

    return torch.from_numpy(_pixels(encoded)).permute(2, 0, 1)


def _torch_epochs(dataset: Any, decoded: bool, random: bool | None) -> Epoch:
    """Of a `DataLoader`; ``random`` is None for data sets that have an order of their own."""
    from torch.utils.data import DataLoader

    loader = DataLoader(
        dataset,
        batch_size=_BATCH,
        shuffle=random,
        num_workers=_WORKERS,
        persistent_workers=True,
        collate_fn=None if decoded else _sizes,
    )
    return lambda: sum(len(batch[0] if decoded else batch) for batch in loader)


def _sizes(samples: Sequence[Any]) -> list[int]:
    return [len(sample) for sample in samples]


class _Folder:
    """As torchvision's ``ImageFolder`` with Pillow reads plain files."""

    def __init__(self, directory: Path, decoded: bool) -> None:
        classes = sorted(path for path in (directory / "train").iterdir())
        self.samples = [
            (str(path), label)
            for label, folder in enumerate(classes)
            for path in sorted(folder.iterdir())
        ]
        self.decoded = decoded

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, number: int) -> Any:
        path, label = self.samples[number]
        with open(path, "rb") as file:
            if not self.decoded:
                return file.read()
            import torch

            pixels = np.array(Image.open(file).convert("RGB"))
        return torch.from_numpy(pixels).permute(2, 0, 1), label


def _files(directory: Path, decoded: bool, random: bool) -> Epoch:
    return _torch_epochs(_Folder(directory, decoded), decoded, random)


class _Encoded:
    """The bytes alone, of a set of any format."""

    def __init__(self, records: Any) -> None:
        self.records = records

    def __len__(self) -> int:
        return len(self.records)

    def __getitems__(self, numbers: Sequence[int]) -> list[bytes]:
        found: list[bytes] = self.records.encoded(numbers)
        return found


def _dataprep(directory: Path, decoded: bool, random: bool) -> Epoch:
    import dataprep

    records = dataprep.open(directory)
    return _torch_epochs(records.to_torch() if decoded else _Encoded(records), decoded, random)


def _webdataset(directory: Path, decoded: bool, _: bool) -> Epoch:
    """In sequence: it has no other order than that of a buffer."""
    import webdataset

    urls = sorted(map(str, directory.glob("train/*.tar")))
    dataset = webdataset.WebDataset(urls, shardshuffle=False).to_tuple("jpg", "cls")
    dataset = dataset.map_tuple(_tensor, int) if decoded else dataset.map(_first)
    return _torch_epochs(dataset, decoded, None)


def _first(pair: Sequence[Any]) -> Any:
    return pair[0]


def _grain(directory: Path, decoded: bool, random: bool) -> Epoch:
    import grain

    from dataprep.sinks import DatasetInfo, tf_example

    class Decode(grain.transforms.Map):  # type: ignore[misc,unused-ignore]
        def map(self, record: bytes) -> Any:
            example = tf_example.decode(record, DatasetInfo())
            if decoded:
                return _pixels(example.encoded), example.class_index
            return len(example.encoded)

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
        return sum(len(batch[0] if decoded else batch) for batch in loader)

    return epoch


def _huggingface(directory: Path, decoded: bool, random: bool) -> Epoch:
    """Copied into its cache, as `load_dataset` does for random access."""
    import datasets

    cache = directory.with_name("huggingface-cache")
    rows = datasets.load_dataset(str(directory), split="train", cache_dir=str(cache))
    rows = rows.select_columns(["image", "label"])
    rows = rows.cast_column("image", datasets.Image(decode=False))
    return _torch_epochs(_Rows(rows, decoded), decoded, random)


class _Rows:
    """Of Hugging Face's data set, a batch at once."""

    def __init__(self, rows: Any, decoded: bool) -> None:
        self.rows, self.decoded = rows, decoded

    def __len__(self) -> int:
        return len(self.rows)

    def __getitems__(self, numbers: list[int]) -> list[Any]:
        found = self.rows[numbers]
        encoded = [image["bytes"] for image in found["image"]]
        if not self.decoded:
            return encoded
        return list(zip(map(_tensor, encoded), found["label"], strict=True))


def _mosaicml(directory: Path, decoded: bool, random: bool) -> Epoch:
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
            return (_tensor(found["x"]), found["y"]) if decoded else found["x"]

    dataset = Images(local=str(copy), shuffle=random, batch_size=_BATCH)
    return _torch_epochs(dataset, decoded, None)


def _litdata(directory: Path, decoded: bool, random: bool) -> Epoch:
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
            return (_tensor(found["x"]), found["y"]) if decoded else found["x"]

    dataset = Images(str(copy), shuffle=random, drop_last=False)
    loader = litdata.StreamingDataLoader(
        dataset,
        batch_size=_BATCH,
        num_workers=_WORKERS,
        persistent_workers=True,
        collate_fn=None if decoded else _sizes,
    )
    return lambda: sum(len(batch[0] if decoded else batch) for batch in loader)


def _all_files(directory: Path) -> Iterator[tuple[bytes, int]]:
    folder = _Folder(directory, False)
    for number, (_, label) in enumerate(folder.samples):
        yield folder[number], label


_KINDS: dict[str, Callable[[Path, bool, bool], Epoch]] = {
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
