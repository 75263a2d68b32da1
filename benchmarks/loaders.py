"""One data loader with two workers, timed over and over: ``loaders KIND DIRECTORY``.

Each line on standard input is ``{"random": …}``, which makes the loader and runs an epoch to warm
up, ``{}``, which runs another, or ``{"resume": true}``, which goes on in the middle of an epoch, as
the loader's own users would; standard output says what it took. So programs of any interpreter can
take turns, epoch by epoch, without their start-up. Each gives batches of 64 images and labels.

``KIND+turbo`` decodes with the libjpeg-turbo that dataprep uses, others with Pillow, as most do;
``crops-KIND`` gives random parts of 224 pixels, every second one mirrored. ``dataprep`` runs on any
format. The others need their own library, and nothing of dataprep.
"""

from __future__ import annotations

import io
import json
import math
import multiprocessing
import os
import random as random_numbers
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

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
            if asked.get("resume"):
                print(json.dumps({"seconds": _RESUMED[_name(kind)](directory)}))
                sys.stdout.flush()
                continue
            epoch = None  # which ends the workers of the last one
            epoch = _KINDS[_name(kind)](directory, asked["random"])
            epoch()
        assert epoch is not None
        start = time.perf_counter()
        images = epoch()
        seconds = time.perf_counter() - start
        told = {"images": images, "seconds": seconds, "worker": _largest_worker()}
        print(json.dumps({**told, "process": _private("self")}))
        sys.stdout.flush()


def _largest_worker() -> int:
    """Bytes that the largest child process has for itself."""
    found = [0]
    for child in multiprocessing.active_children():
        with suppress(OSError):  # it has ended meanwhile
            found.append(_private(child.pid))
    return max(found)


def _private(process: object) -> int:
    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))


def _name(kind: str) -> str:
    return kind.partition("+")[0]


def _pixels(encoded: bytes) -> np.ndarray:
    """(height, width, channel)."""
    if _TURBO:
        import simplejpeg  # type: ignore[import-untyped]

        pixels: np.ndarray = simplejpeg.decode_jpeg(encoded, "RGB")
        return pixels
    return np.array(Image.open(io.BytesIO(encoded)).convert("RGB"))


def _of_bytes(encoded: bytes) -> Any:
    """What torchvision's ``pil_to_tensor`` makes of it."""
    import torch

    return torch.from_numpy(_pixels(encoded)).permute(2, 0, 1)


def _part(encoded: bytes) -> Any:
    """As torchvision's ``RandomResizedCrop(224)`` and ``RandomHorizontalFlip`` with Pillow."""
    import torch

    picture = Image.open(io.BytesIO(encoded)).convert("RGB")
    width, height = picture.size
    box = (0, 0, width, height)
    for _ in range(10):
        area = width * height * random_numbers.uniform(0.08, 1)
        ratio = math.exp(random_numbers.uniform(math.log(3 / 4), math.log(4 / 3)))
        across, down = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if across <= width and down <= height:
            left = random_numbers.randint(0, width - across)
            top = random_numbers.randint(0, height - down)
            box = (left, top, left + across, top + down)
            break
    picture = picture.crop(box).resize((224, 224), Image.Resampling.BILINEAR)
    if random_numbers.random() < 0.5:
        picture = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return torch.from_numpy(np.array(picture)).permute(2, 0, 1)


def _torch_epochs(dataset: Any, random: bool | None, **options: Any) -> Epoch:
    """Of a `DataLoader`; ``random`` is None for data sets that have an order of their own."""
    from torch.utils.data import DataLoader

    if "batch_sampler" not in options:
        options |= {"batch_size": _BATCH, "shuffle": random}
    loader = DataLoader(dataset, num_workers=_WORKERS, persistent_workers=True, **options)
    return lambda: sum(len(labels) for _, labels in loader)


def _limit(directory: Path, _: bool) -> Epoch:
    """No loader: as many threads decode from memory, each into one array."""
    import simplejpeg

    import dataprep

    records = dataprep.open(directory)
    encoded = records.encoded(range(len(records)))
    size = records[0].array().shape

    def decode(part: Sequence[bytes]) -> int:
        place = np.empty(size, np.uint8)
        for one in part:
            simplejpeg.decode_jpeg(one, "RGB", buffer=place)
        return len(part)

    def epoch() -> int:
        with ThreadPoolExecutor(_WORKERS) as pool:
            return sum(pool.map(decode, [encoded[at::_WORKERS] for at in range(_WORKERS)]))

    return epoch


class _Folder:
    """As torchvision's ``ImageFolder`` with Pillow reads plain files."""

    def __init__(self, directory: Path, decode: Callable[[bytes], Any] = _of_bytes) -> None:
        self.decode = decode
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
        return self.decode(Path(path).read_bytes()), label


def _files(directory: Path, random: bool) -> Epoch:
    return _torch_epochs(_Folder(directory), random)


def _crops_files(directory: Path, random: bool) -> Epoch:
    return _torch_epochs(_Folder(directory, _part), random)


def _own_loader(directory: Path, random: bool, **look: Any) -> Any:
    import dataprep

    records = dataprep.open(directory)
    order: Literal["global", "none"] = "global" if random else "none"
    return records.loader(_BATCH, shuffle=order, uneven="repeat", threads=_WORKERS, **look)


def _dataprep(directory: Path, random: bool) -> Epoch:
    loader = _own_loader(directory, random)
    return lambda: sum(len(labels) for _, labels in loader)


def _crops_dataprep(directory: Path, random: bool) -> Epoch:
    loader = _own_loader(directory, random, size=224, crop="random", flip=True)
    return lambda: sum(len(labels) for _, labels in loader)


def _dataset(directory: Path, random: bool) -> Epoch:
    """`to_torch` in PyTorch's own order."""
    import dataprep

    dataset = dataprep.open(directory).to_torch()
    return _torch_epochs(dataset, random, collate_fn=dataset.collate_fn)


def _sampler(directory: Path, random: bool) -> Epoch:
    """`to_torch` in the order of our sampler."""
    import dataprep

    records = dataprep.open(directory)
    dataset = records.to_torch()
    order: Literal["global", "none"] = "global" if random else "none"
    sampler = records.sampler(_BATCH, shuffle=order, uneven="repeat")
    return _torch_epochs(dataset, random, collate_fn=dataset.collate_fn, batch_sampler=sampler)


def _spdl(directory: Path, random: bool, size: int = 0) -> Epoch:
    """SPDL's pipeline of threads: a batch of files at once, decoded by FFmpeg."""
    import spdl.io  # type: ignore[import-not-found,unused-ignore]
    from spdl.pipeline import PipelineBuilder  # type: ignore[import-not-found,unused-ignore]

    samples = list(_Folder(directory).samples)

    def batches() -> Iterator[list[tuple[str, int]]]:
        if random:
            random_numbers.shuffle(samples)
        for at in range(0, len(samples), _BATCH):
            yield samples[at : at + _BATCH]

    def decode(batch: list[tuple[str, int]]) -> tuple[Any, list[int]]:
        paths = [path for path, _ in batch]
        if size:
            frames = [_spdl_part(spdl.io, path, size) for path in paths]
            buffer = spdl.io.convert_frames(frames)
        else:
            buffer = spdl.io.load_image_batch(
                paths, width=None, height=None, pix_fmt="rgb24", strict=True
            )
        return spdl.io.to_torch(buffer), [label for _, label in batch]

    def epoch() -> int:
        builder = PipelineBuilder().add_source(batches()).pipe(decode, concurrency=_WORKERS)
        pipeline = builder.add_sink(2).build(num_threads=_WORKERS)
        with pipeline.auto_stop():
            return sum(len(labels) for _, labels in pipeline)

    return epoch


def _spdl_part(spdl_io: Any, path: str, size: int) -> Any:
    """A random part, by FFmpeg's filters."""
    packets = spdl_io.demux_image(path)
    width, height = packets.codec.width, packets.codec.height
    area = width * height * random_numbers.uniform(0.08, 1)
    ratio = math.exp(random_numbers.uniform(math.log(3 / 4), math.log(4 / 3)))
    across = min(width, round(math.sqrt(area * ratio)))
    down = min(height, round(math.sqrt(area / ratio)))
    left = random_numbers.randint(0, width - across)
    top = random_numbers.randint(0, height - down)
    words = f"crop={across}:{down}:{left}:{top},scale={size}:{size}:flags=bilinear"
    words += ",hflip" if random_numbers.random() < 0.5 else ""
    return spdl_io.decode_packets(packets, filter_desc=f"{words},format=pix_fmts=rgb24")


def _crops_spdl(directory: Path, random: bool) -> Epoch:
    return _spdl(directory, random, 224)


def _webdataset(directory: Path, _: bool) -> Epoch:
    """In sequence: it has no other order than that of a buffer."""
    import webdataset

    urls = sorted(map(str, directory.glob("train/*.tar")))
    dataset = webdataset.WebDataset(urls, shardshuffle=False).to_tuple("jpg", "cls")
    return _torch_epochs(dataset.map_tuple(_of_bytes, int), None)


def _grain(directory: Path, random: bool) -> Epoch:
    make = _grain_loader(directory, random)
    return lambda: sum(len(labels) for _, labels in make())


def _grain_loader(directory: Path, random: bool) -> Callable[[], Any]:
    import grain

    from dataprep.formats import DatasetInfo, tf_example

    class Decode(grain.transforms.Map):  # type: ignore[misc,unused-ignore]
        def map(self, record: bytes) -> Any:
            example = tf_example.decode(record, DatasetInfo())
            return _pixels(example.encoded), example.class_index

    source = grain.sources.ArrayRecordDataSource(
        sorted(map(str, directory.glob("train/*.arrayrecord")))
    )

    def make() -> Any:
        sampler = grain.samplers.IndexSampler(
            len(source),
            num_epochs=1,
            shuffle=random,
            seed=1,
            shard_options=grain.sharding.NoSharding(),
        )
        return grain.DataLoader(
            data_source=source,
            sampler=sampler,
            operations=[Decode(), grain.transforms.Batch(batch_size=_BATCH)],
            worker_count=_WORKERS,
        )

    return make


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
    return _torch_epochs(_mosaicml_images(directory, random), None)


def _mosaicml_images(directory: Path, random: bool) -> Any:
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

    return Images(local=str(copy), shuffle=random, batch_size=_BATCH)


def _litdata(directory: Path, random: bool) -> Epoch:
    import litdata

    loader = litdata.StreamingDataLoader(
        _litdata_images(directory, random),
        batch_size=_BATCH,
        num_workers=_WORKERS,
        persistent_workers=True,
    )
    return lambda: sum(len(labels) for _, labels in loader)


def _litdata_images(directory: Path, random: bool) -> Any:
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

    return Images(str(copy), shuffle=random, drop_last=False)


def _all_files(directory: Path) -> Iterator[tuple[bytes, int]]:
    for path, label in _Folder(directory).samples:
        yield Path(path).read_bytes(), label


def _after(loader: Any, batches: int) -> Any:
    """Its iterator, behind so many batches."""
    found = iter(loader)
    for _ in range(batches):
        next(found)
    return found


def _timed(make: Callable[[], Any]) -> float:
    """Seconds until what is made has given a batch."""
    start = time.perf_counter()
    next(iter(make()))
    return time.perf_counter() - start


def _resumed(make: Callable[[], Any]) -> float:
    """Of a loader with a state, in the middle of an epoch."""
    loader = make()
    kept = _after(loader, len(loader) // 2)
    state = loader.state_dict()
    del kept, loader

    def again() -> Any:
        other = make()
        other.load_state_dict(state)
        return other

    return _timed(again)


def _resume_dataprep(directory: Path) -> float:
    return _resumed(lambda: _own_loader(directory, True))


def _resume_files(directory: Path) -> float:
    """Torchdata's ``StatefulDataLoader``."""
    from torchdata.stateful_dataloader import (  # type: ignore[import-not-found,unused-ignore]
        StatefulDataLoader,
    )

    options: dict[str, Any] = {"batch_size": _BATCH, "shuffle": True, "num_workers": _WORKERS}
    return _resumed(lambda: StatefulDataLoader(_Folder(directory), **options))


def _resume_mosaicml(directory: Path) -> float:
    from streaming.base import StreamingDataLoader

    options = {"batch_size": _BATCH, "num_workers": _WORKERS}
    return _resumed(lambda: StreamingDataLoader(_mosaicml_images(directory, True), **options))


def _resume_litdata(directory: Path) -> float:
    from litdata import StreamingDataLoader

    options = {"batch_size": _BATCH, "num_workers": _WORKERS}
    return _resumed(lambda: StreamingDataLoader(_litdata_images(directory, True), **options))


def _resume_grain(directory: Path) -> float:
    make = _grain_loader(directory, True)
    batches = sum(1 for _ in make())
    found = _after(make(), batches // 2)
    state = found.get_state()

    def again() -> Any:
        other = iter(make())
        other.set_state(state)
        return other

    return _timed(again)


_TURBO = sys.argv[1:2] != [] and sys.argv[1].endswith("+turbo")
_KINDS: dict[str, Callable[[Path, bool], Epoch]] = {
    "limit": _limit,
    "files": _files,
    "dataprep": _dataprep,
    "dataset": _dataset,
    "sampler": _sampler,
    "spdl": _spdl,
    "crops-files": _crops_files,
    "crops-dataprep": _crops_dataprep,
    "crops-spdl": _crops_spdl,
    "webdataset": _webdataset,
    "grain": _grain,
    "huggingface": _huggingface,
    "mosaicml": _mosaicml,
    "litdata": _litdata,
}
_RESUMED: dict[str, Callable[[Path], float]] = {
    "dataprep": _resume_dataprep,
    "files": _resume_files,
    "mosaicml": _resume_mosaicml,
    "litdata": _resume_litdata,
    "grain": _resume_grain,
}

if __name__ == "__main__":
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    main(sys.argv[1], Path(sys.argv[2]))
