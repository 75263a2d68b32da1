"""Which HDF5 layout holds encoded images best: ``python -m benchmarks.hdf5_layout [DIR]``.

Writes the same pseudo-random blobs in every layout and reads single ones back in random order,
with h5py's defaults, from the page cache: what is compared is the work of HDF5, not the disk.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np

Read = Callable[[h5py.File, int], bytes]


def write_vlen(path: Path, blobs: list[bytes]) -> Read:
    """One variable-length array an image: each goes to HDF5's global heap."""
    with h5py.File(path, "w", libver="v110") as file:
        images = file.create_dataset("images", (len(blobs),), h5py.vlen_dtype(np.uint8))
        for number, blob in enumerate(blobs):
            images[number] = np.frombuffer(blob, np.uint8)
    return lambda file, number: bytes(file["images"][number].tobytes())


def write_chunked(chunk: int) -> Callable[[Path, list[bytes]], Read]:
    """All bytes in one growing dataset, whole chunks written past the cache, and offsets."""

    def write(path: Path, blobs: list[bytes]) -> Read:
        offsets = np.cumsum([0, *map(len, blobs)])
        with h5py.File(path, "w", libver="v110") as file:
            images = file.create_dataset(
                "images", (0,), np.uint8, maxshape=(None,), chunks=(chunk,)
            )
            pending, done = bytearray(), 0
            for blob in [*blobs, bytes(-int(offsets[-1]) % chunk)]:
                pending += blob
                while len(pending) >= chunk:
                    images.resize((done + chunk,))
                    images.id.write_direct_chunk((done,), bytes(pending[:chunk]))
                    del pending[:chunk]
                    done += chunk
            images.resize((int(offsets[-1]),))
            file["offsets"] = offsets
        return slicing(offsets)

    return write


def write_contiguous(path: Path, blobs: list[bytes]) -> Read:
    """All bytes in one contiguous dataset of known size, and offsets."""
    offsets = np.cumsum([0, *map(len, blobs)])
    with h5py.File(path, "w", libver="v110") as file:
        images = file.create_dataset("images", (int(offsets[-1]),), np.uint8)
        for number, blob in enumerate(blobs):
            images[offsets[number] : offsets[number + 1]] = np.frombuffer(blob, np.uint8)
        file["offsets"] = offsets
    return slicing(offsets)


def slicing(offsets: np.ndarray) -> Read:
    """A reader by slices."""
    return lambda file, number: bytes(
        file["images"][offsets[number] : offsets[number + 1]].tobytes()
    )


LAYOUTS: dict[str, Callable[[Path, list[bytes]], Read]] = {
    "vlen uint8": write_vlen,
    **{f"flat, chunks of {kib} KiB": write_chunked(kib << 10) for kib in (64, 256, 1024, 4096)},
    "flat, contiguous, size known": write_contiguous,
}


def measure(title: str, blobs: list[bytes], folder: Path) -> None:
    """Print one table."""
    total = sum(map(len, blobs))
    order = random.Random(1).sample(range(len(blobs)), min(1000, len(blobs)))
    print(f"{title}: {len(blobs)} images, {total / 1e6:.1f} MB")
    print(f"{'layout':30} {'overhead':>9} {'write MB/s':>11} {'us a read':>10}")
    for name, write in LAYOUTS.items():
        path = folder / "shard.h5"
        start = time.perf_counter()
        read = write(path, blobs)
        written = time.perf_counter() - start
        with h5py.File(path, "r") as file:
            start = time.perf_counter()
            wrong = sum(read(file, number) != blobs[number] for number in order)
            seconds = time.perf_counter() - start
        assert not wrong, name
        overhead = path.stat().st_size / total - 1
        print(
            f"{name:30} {overhead:9.2%} {total / 1e6 / written:11.0f} "
            f"{seconds / len(order) * 1e6:10.0f}"
        )
        path.unlink()
    print()


def main() -> None:
    """Measure photographs and thumbnails."""
    generator = random.Random(0)
    photographs = [generator.randbytes(generator.randint(20_000, 200_000)) for _ in range(3000)]
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if sys.argv[1:] else None) as folder:
        measure("photographs of 20 to 200 KB", photographs, Path(folder))
        thumbnails = [generator.randbytes(generator.randint(500, 4000)) for _ in range(3000)]
        measure("thumbnails of 0.5 to 4 KB", thumbnails, Path(folder))
        measure("a tiny shard", thumbnails[:40], Path(folder))


if __name__ == "__main__":
    main()
