"""The other side of resize: decode, resize, encode in memory, and nothing else.

Exactly the library calls that ``dataprep imagenet --resize 256`` makes, with its defaults, on
images that are already in memory, one thread a process. Prints images a second, of all
processes together.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
import time
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from dataprep.cli.prepare import dataset_command
from dataprep.images import Recipe, Resize, codecs, jpeg, pixels
from dataprep.images.recipe import CHROMA

_OPTIONS = dataset_command("imagenet").params
_DEFAULTS: dict[str | None, Any] = {option.name: option.default for option in _OPTIONS}
_RECIPE = Recipe(resize=Resize(256), filter=_DEFAULTS["filter"], quality=_DEFAULTS["quality"])
_WARM_UP = 20  # images
_START_SECONDS = 60.0  # a process that died must not keep the others waiting


def main(raw: Path, count: int, processes: int) -> None:
    """Convert ``count`` images in each process."""
    images = [path.read_bytes() for path in sorted(raw.glob("train/*/*.JPEG"))[:count]]
    grey = [jpeg.read_frame(data).components == 1 for data in images]
    inputs = list(zip(images, grey, strict=True))
    # Forked, so that the images are in every process without being copied or read again.
    context = multiprocessing.get_context("fork")
    ready, rates = context.Barrier(processes), context.SimpleQueue()

    def work() -> None:
        for data, is_grey in inputs[:_WARM_UP]:
            _convert(data, is_grey)
        ready.wait(_START_SECONDS)
        start = time.perf_counter()
        for data, is_grey in islice(cycle(inputs), count):
            _convert(data, is_grey)
        rates.put(count / (time.perf_counter() - start))

    workers = [context.Process(target=work) for _ in range(processes)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if any(worker.exitcode for worker in workers):
        sys.exit("a process of the bare loop failed")
    print(json.dumps({"rate": sum(rates.get() for _ in workers)}))


def _convert(data: bytes, is_grey: bool) -> bytes:
    decoded = codecs.fast_decode(data, "GRAY" if is_grey else "RGB")
    height, width = decoded.shape[:2]
    size = pixels.target_size(width, height, Resize(256))
    resized = pixels.resized(decoded, size, _RECIPE.filter)
    return codecs.to_jpeg(resized, _RECIPE.quality, CHROMA)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
