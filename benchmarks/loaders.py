"""One data loader, timed over and over: ``loaders KIND DIRECTORY``; `feeding` trains from them.

Each line on standard input is ``{"random": …}``, or more of a `Wish`, which makes the loader and
runs an epoch to warm up, ``{}``, which runs another, or ``{"resume": true}``, which goes on in the
middle of an epoch, as the loader's own users would; standard output says what it took. So programs
of any interpreter can take turns, epoch by epoch, without their start-up. Each gives batches of
images and labels.

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
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

_SIDE = 224  # pixels of a random part

Epoch = Callable[[], Iterable[Any]]
"""Batches of an epoch, pairs of images and labels."""


@dataclass(frozen=True)
class Wish:
    """What a loader is to do: in which order, for which rank, by how many threads or workers."""

    random: bool = True
    batch: int = 64
    workers: int = 2
    rank: int = 0
    ranks: int = 1


def main(kind: str, directory: Path) -> None:
    """Do as the lines say until there are no more."""
    epoch: Epoch | None = None
    for line in sys.stdin:
        if asked := json.loads(line):
            if asked.get("resume"):
                print(json.dumps({"seconds": _resume(kind, directory)}))
                sys.stdout.flush()
                continue
            epoch = None  # which ends the workers of the last one
            epoch = loader(kind, directory, Wish(**asked))
            _images(epoch)
        assert epoch is not None
        start = time.perf_counter()
        images = _images(epoch)
        seconds = time.perf_counter() - start
        told = {"images": images, "seconds": seconds, "worker": _largest_worker()}
        print(json.dumps({**told, "process": _private("self")}))
        sys.stdout.flush()


def loader(kind: str, directory: Path, wish: Wish) -> Epoch:
    """What gives an epoch whenever it is called."""
    global _TURBO  # which workers inherit
    _TURBO = kind.endswith("+turbo")
    return _KINDS[_name(kind)](directory, wish)


def _images(epoch: Epoch) -> int:
    return sum(len(labels) for _, labels in epoch())


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

    if _TURBO:
        picture = Image.fromarray(_pixels(encoded))
    else:
        picture = Image.open(io.BytesIO(encoded)).convert("RGB")
    left, top, across, down = _box(*picture.size)
    box = (left, top, left + across, top + down)
    picture = picture.crop(box).resize((_SIDE, _SIDE), Image.Resampling.BILINEAR)
    if random_numbers.random() < 0.5:
        picture = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return torch.from_numpy(np.array(picture)).permute(2, 0, 1)


def _box(width: int, height: int) -> tuple[int, int, int, int]:
    """Left, top, width and height of a random part."""
    for _ in range(10):
        area = width * height * random_numbers.uniform(0.08, 1)
        ratio = math.exp(random_numbers.uniform(math.log(3 / 4), math.log(4 / 3)))
        across, down = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if across <= width and down <= height:
            left = random_numbers.randint(0, width - across)
            return left, random_numbers.randint(0, height - down), across, down
    return 0, 0, width, height


def _torch_epochs(
    dataset: Any, wish: Wish, *, ordered: bool = False, kind: Any = None, **options: Any
) -> Epoch:
    """Of a `DataLoader`, or one like it; ``ordered``: of data sets that have their own order."""
    import torch.utils.data

    if "batch_sampler" not in options:
        options |= {"batch_size": wish.batch, "shuffle": None if ordered else wish.random}
    kind = kind or torch.utils.data.DataLoader
    pinned = torch.cuda.is_available()
    workers = {"num_workers": wish.workers, "persistent_workers": True, "pin_memory": pinned}
    batches = kind(dataset, **workers, **options)
    return lambda: batches


def _limit(directory: Path, wish: Wish) -> Epoch:
    """No loader: as many threads decode from memory, each into one array."""
    import simplejpeg

    import dataprep

    records = dataprep.open(directory)
    encoded = records.encoded(range(len(records)))
    size = records[0].array().shape

    def decode(part: Sequence[bytes]) -> tuple[None, Sequence[bytes]]:
        place = np.empty(size, np.uint8)
        for one in part:
            simplejpeg.decode_jpeg(one, "RGB", buffer=place)
        return None, part

    def epoch() -> list[Any]:
        with ThreadPoolExecutor(wish.workers) as pool:
            return [*pool.map(decode, [encoded[at :: wish.workers] for at in range(wish.workers)])]

    return epoch


class _Folder:
    """As torchvision's ``ImageFolder`` with Pillow reads plain files."""

    def __init__(
        self, directory: Path, decode: Callable[[bytes], Any] = _of_bytes, wish: Wish = Wish()
    ) -> None:
        self.decode = decode
        classes = sorted(path for path in (directory / "train").iterdir())
        self.samples = [
            (str(path), label)
            for label, folder in enumerate(classes)
            for path in sorted(folder.iterdir())
        ][wish.rank :: wish.ranks]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, number: int) -> Any:
        path, label = self.samples[number]
        return self.decode(Path(path).read_bytes()), label


def _folder(directory: Path, wish: Wish) -> _Folder:
    return _Folder(directory, wish=wish)


def _files(directory: Path, wish: Wish) -> Epoch:
    return _torch_epochs(_folder(directory, wish), wish)


def _crops_files(directory: Path, wish: Wish) -> Epoch:
    return _torch_epochs(_Folder(directory, _part, wish), wish)


def _own_loader(directory: Path, wish: Wish, **look: Any) -> Any:
    import dataprep

    options = {**_order(wish), **look}
    return dataprep.open(directory).loader(wish.batch, threads=wish.workers, **options)


def _order(wish: Wish) -> dict[str, Any]:
    ranks = {"rank": wish.rank, "world_size": wish.ranks}
    return {**ranks, "shuffle": "global" if wish.random else "none", "uneven": "repeat"}


def _dataprep(directory: Path, wish: Wish) -> Epoch:
    batches = _own_loader(directory, wish)
    return lambda: batches


def _crops_dataprep(directory: Path, wish: Wish, **options: Any) -> Epoch:
    batches = _own_loader(directory, wish, size=_SIDE, crop="random", flip=True, **options)
    return lambda: batches


def _crops_processes(directory: Path, wish: Wish) -> Epoch:
    return _crops_dataprep(directory, wish, processes=True)


def _dataset(directory: Path, wish: Wish) -> Epoch:
    """`to_torch` in PyTorch's own order."""
    import dataprep

    dataset = dataprep.open(directory).to_torch()
    return _torch_epochs(dataset, wish, collate_fn=dataset.collate_fn)


def _sampler(directory: Path, wish: Wish) -> Epoch:
    """`to_torch` in the order of our sampler."""
    import dataprep

    records = dataprep.open(directory)
    dataset = records.to_torch()
    sampler = records.sampler(wish.batch, **_order(wish))
    return _torch_epochs(dataset, wish, collate_fn=dataset.collate_fn, batch_sampler=sampler)


def _spdl(directory: Path, wish: Wish, size: int = 0) -> Epoch:
    """SPDL's pipeline of threads: a batch of files at once, decoded by FFmpeg."""
    import spdl.io  # type: ignore[import-not-found,unused-ignore]
    from spdl.pipeline import PipelineBuilder  # type: ignore[import-not-found,unused-ignore]

    samples = list(_Folder(directory, wish=wish).samples)

    def batches() -> Iterator[list[tuple[str, int]]]:
        if wish.random:
            random_numbers.shuffle(samples)
        for at in range(0, len(samples), wish.batch):
            yield samples[at : at + wish.batch]

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

    def epoch() -> Iterator[Any]:
        builder = PipelineBuilder().add_source(batches()).pipe(decode, concurrency=wish.workers)
        pipeline = builder.add_sink(2).build(num_threads=wish.workers)
        with pipeline.auto_stop():
            yield from pipeline

    return epoch


def _spdl_part(spdl_io: Any, path: str, size: int) -> Any:
    """A random part, by FFmpeg's filters."""
    packets = spdl_io.demux_image(path)
    left, top, across, down = _box(packets.codec.width, packets.codec.height)
    words = f"crop={across}:{down}:{left}:{top},scale={size}:{size}:flags=bilinear"
    words += ",hflip" if random_numbers.random() < 0.5 else ""
    return spdl_io.decode_packets(packets, filter_desc=f"{words},format=pix_fmts=rgb24")


def _crops_spdl(directory: Path, wish: Wish) -> Epoch:
    return _spdl(directory, wish, _SIDE)


def _crops_dali(directory: Path, wish: Wish) -> Epoch:
    """NVIDIA's, whose decoder takes only the random part; on a GPU, if there is one."""
    import torch
    from nvidia.dali import fn, pipeline_def  # type: ignore[import-not-found,unused-ignore]
    from nvidia.dali.plugin.pytorch import (  # type: ignore[import-not-found,unused-ignore]
        DALIGenericIterator,
    )

    cuda = torch.cuda.is_available()

    @pipeline_def(  # type: ignore[untyped-decorator,unused-ignore]
        batch_size=wish.batch, num_threads=wish.workers, device_id=0 if cuda else None
    )
    def parts() -> Any:
        files, labels = fn.readers.file(
            file_root=str(directory / "train"),
            random_shuffle=wish.random,
            shard_id=wish.rank,
            num_shards=wish.ranks,
            name="files",
        )
        images = fn.decoders.image_random_crop(files, device="mixed" if cuda else "cpu")
        images = fn.resize(images, size=(_SIDE, _SIDE))
        return fn.flip(images, horizontal=fn.random.coin_flip()), labels

    found = DALIGenericIterator(
        [parts()], ["images", "labels"], reader_name="files", auto_reset=True
    )
    return lambda: ((one["images"], one["labels"].squeeze(1)) for (one,) in found)


def _webdataset(directory: Path, wish: Wish) -> Epoch:
    """In sequence: it has no other order than that of a buffer."""
    import webdataset

    urls = sorted(map(str, directory.glob("train/*.tar")))
    dataset = webdataset.WebDataset(urls, shardshuffle=False).to_tuple("jpg", "cls")
    return _torch_epochs(dataset.map_tuple(_of_bytes, int), wish, ordered=True)


def _grain(directory: Path, wish: Wish) -> Epoch:
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
            shuffle=wish.random,
            seed=1,
            shard_options=grain.sharding.NoSharding(),
        )
        return grain.DataLoader(
            data_source=source,
            sampler=sampler,
            operations=[Decode(), grain.transforms.Batch(batch_size=wish.batch)],
            worker_count=wish.workers,
        )

    return make


def _huggingface(directory: Path, wish: Wish) -> Epoch:
    """Copied into its cache, as `load_dataset` does for random access."""
    import datasets

    cache = directory.with_name("huggingface-cache")
    rows = datasets.load_dataset(str(directory), split="train", cache_dir=str(cache))
    rows = rows.select_columns(["image", "label"])
    rows = rows.cast_column("image", datasets.Image(decode=False))
    return _torch_epochs(_Rows(rows), wish)


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


def _mosaicml(directory: Path, wish: Wish) -> Epoch:
    return _torch_epochs(_mosaicml_images(directory, wish), wish, ordered=True)


def _mosaicml_images(directory: Path, wish: Wish) -> Any:
    from streaming.base import MDSWriter, StreamingDataset

    def write(copy: str) -> None:
        with MDSWriter(out=copy, columns={"x": "bytes", "y": "int"}) as sink:
            for encoded, label in _all_files(directory):
                sink.write({"x": encoded, "y": label})

    copy = _once(directory.with_name("mds"), write)

    class Images(StreamingDataset):  # type: ignore[misc,valid-type,unused-ignore]
        def __getitem__(self, number: int) -> Any:
            found = super().__getitem__(number)
            return _of_bytes(found["x"]), found["y"]

    return Images(local=copy, shuffle=wish.random, batch_size=wish.batch)


def _litdata(directory: Path, wish: Wish, decode: Callable[[bytes], Any] = _of_bytes) -> Epoch:
    import litdata

    images = _litdata_images(directory, wish, decode)
    return _torch_epochs(images, wish, ordered=True, kind=litdata.StreamingDataLoader)


def _crops_litdata(directory: Path, wish: Wish) -> Epoch:
    return _litdata(directory, wish, _part)


def _litdata_images(directory: Path, wish: Wish, decode: Callable[[bytes], Any] = _of_bytes) -> Any:
    import litdata
    from litdata.streaming.cache import Cache

    def write(copy: str) -> None:
        cache = Cache(copy, chunk_bytes="64MB")
        for number, (encoded, label) in enumerate(_all_files(directory)):
            cache[number] = {"x": encoded, "y": label}
        cache.done()
        cache.merge()

    copy = _once(directory.with_name(f"litdata-{directory.name}"), write)

    class Images(litdata.StreamingDataset):  # type: ignore[misc,unused-ignore]
        def __getitem__(self, number: Any) -> Any:
            found = super().__getitem__(number)
            return decode(found["x"]), found["y"]

    return Images(copy, shuffle=wish.random, drop_last=False)


def _once(copy: Path, write: Callable[[str], None]) -> str:
    """Another tool's copy, made if it is not there."""
    if not copy.exists():
        partial = copy.with_name(f"{copy.name}.partial")
        write(str(partial))
        partial.rename(copy)
    return str(copy)


def _all_files(directory: Path) -> Iterator[tuple[bytes, int]]:
    for path, label in _Folder(directory).samples:
        yield Path(path).read_bytes(), label


def _resumed(make: Callable[[], Any], *, of_loop: bool = False) -> float:
    """Seconds until a loader whose state is of the middle of an epoch has given a batch."""
    batches = sum(1 for _ in make())
    kept = make()
    loop = iter(kept)
    for _ in range(batches // 2):
        next(loop)
    state = loop.get_state() if of_loop else kept.state_dict()
    del kept, loop
    start = time.perf_counter()
    if of_loop:
        other = iter(make())
        other.set_state(state)
    else:
        other = make()
        other.load_state_dict(state)
    next(iter(other))
    return time.perf_counter() - start


def _resume(kind: str, directory: Path) -> float:
    """Seconds until the loader of a kind goes on in the middle of an epoch."""
    if kind == "dataprep":
        return _resumed(lambda: _own_loader(directory, Wish()))
    if kind == "grain":
        return _resumed(_grain(directory, Wish()), of_loop=True)
    module, name, images = _STATEFUL[kind]
    options: dict[str, Any] = {"batch_size": 64, "num_workers": 2}
    options |= {"shuffle": True} if kind == "files" else {}
    make = getattr(import_module(module), name)
    return _resumed(lambda: make(images(directory, Wish()), **options))


_TURBO = False
_KINDS: dict[str, Callable[[Path, Wish], Epoch]] = {
    "limit": _limit,
    "files": _files,
    "dataprep": _dataprep,
    "dataset": _dataset,
    "sampler": _sampler,
    "spdl": _spdl,
    "crops-files": _crops_files,
    "crops-dataprep": _crops_dataprep,
    "crops-processes": _crops_processes,
    "crops-spdl": _crops_spdl,
    "crops-dali": _crops_dali,
    "crops-litdata": _crops_litdata,
    "webdataset": _webdataset,
    "grain": _grain,
    "huggingface": _huggingface,
    "mosaicml": _mosaicml,
    "litdata": _litdata,
}
_STATEFUL: dict[str, tuple[str, str, Callable[[Path, Wish], Any]]] = {
    "files": ("torchdata.stateful_dataloader", "StatefulDataLoader", _folder),
    "mosaicml": ("streaming.base", "StreamingDataLoader", _mosaicml_images),
    "litdata": ("litdata", "StreamingDataLoader", _litdata_images),
}

if __name__ == "__main__":
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    main(sys.argv[1], Path(sys.argv[2]))
