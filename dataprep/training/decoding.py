"""Stored images decoded into their places in a batch: by this thread, or by a process it has.

Decoder and resampler run without the GIL. What calls them holds it a quarter of a millisecond an
image, so more than a handful of threads wait for each other, and the training loop for all of them.
A thread with a process of its own holds it 20 us for all images that it hands over.
"""

from __future__ import annotations

import math
import mmap
import os
import pickle
import subprocess
import sys
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Final, Literal

import numpy as np

from dataprep.errors import DatasetError, ImageError, SinkError
from dataprep.images.crops import Crop, place, place_mask, place_pixels
from dataprep.images.decode import to_pixels

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dataprep.training.sequence import ExampleSequence

_ALONE: Final = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # as many as cores, else
_ENDING_SECONDS: Final = 1.0


class Decoder:
    """Decodes what examples have stored."""

    def __init__(self, examples: ExampleSequence, crop: Crop) -> None:
        self._examples, self._crop = examples, crop

    def fill(
        self,
        numbers: Sequence[int],
        drawn: NDArray[np.float64],
        places: NDArray[np.uint8],
        masks: NDArray[np.uint8] | None = None,
    ) -> None:
        """Decode examples into their places.

        Args:
            numbers: of the examples.
            drawn: `Crop.draws` random numbers of each.
            places: shape (examples, height, width, channels).
            masks: places of their masks, shape (examples, height, width); None: of none.

        Raises:
            SinkError: one is damaged, or no image of this size; names record and shard.
        """
        for at, data in enumerate(self._stored(numbers, drawn, masks)):
            self._show(numbers[at], data, drawn[at].tolist(), places[at])

    def fill_unless(
        self,
        elsewhere: Callable[[bytes, int], bool],
        numbers: Sequence[int],
        drawn: NDArray[np.float64],
        places: NDArray[np.uint8],
        masks: NDArray[np.uint8] | None = None,
    ) -> list[bytes | None]:
        """The same but for images that are decoded elsewhere.

        Args:
            elsewhere: whether one is, as it is stored, to so many channels.

        Returns:
            The images that are decoded elsewhere; None for those in their places.
        """
        stored: list[bytes | None] = [*self._stored(numbers, drawn, masks)]
        for at, data in enumerate(stored):
            assert data is not None  # noqa: S101  # each is replaced once
            if self._examples.pixels or not elsewhere(data, places.shape[3]):
                self._show(numbers[at], data, drawn[at].tolist(), places[at])
                stored[at] = None
        return stored

    def _stored(
        self,
        numbers: Sequence[int],
        drawn: NDArray[np.float64],
        masks: NDArray[np.uint8] | None,
    ) -> list[bytes]:
        """Images as they are stored, once their masks are in their places."""
        if masks is None:
            return self._examples.encoded(numbers)
        examples = self._examples.__getitems__(numbers)
        for at, (number, example) in enumerate(zip(numbers, examples, strict=True)):
            try:
                place_mask(example.mask(), self._crop, drawn[at].tolist(), masks[at])
            except ImageError as error:
                raise SinkError(f"{self._examples.place_of(number)}: {error}") from error
        return [example.encoded for example in examples]

    def _show(
        self, number: int, data: bytes, drawn: Sequence[float], target: NDArray[np.uint8]
    ) -> None:
        examples, info = self._examples, self._examples.info
        if info.channels == 1:
            target = target[:, :, 0]
        try:
            if examples.pixels:
                color: Literal["gray", "rgb"] = "gray" if info.channels == 1 else "rgb"
                pixels = to_pixels(data, "RAW", *(info.size or (0, 0)), color)
                place_pixels(pixels, self._crop, drawn, target)
            else:
                place(data, self._crop, drawn, target)
        except ImageError as error:
            raise SinkError(f"{examples.place_of(number)}: {error}") from error


class DecodingProcess:
    """The same by another process, for one thread at a time; started anew, not forked.

    It writes into memory that both have, from where this thread copies it, without the GIL. It ends
    with this one, or when nobody needs it any more.

    Args:
        examples: and the crop, of the `Decoder` there.
        shape: of one image.
        most: examples that are decoded at once.
        masks: whether masks are as well.
    """

    def __init__(
        self,
        examples: ExampleSequence,
        crop: Crop,
        shape: tuple[int, ...],
        most: int,
        *,
        masks: bool,
    ) -> None:
        known = os.pathsep.join(map(os.path.abspath, sys.path))  # what this one finds, it finds
        memory = os.memfd_create("dataprep batch")
        try:
            os.truncate(memory, most * (math.prod(shape) + masks * math.prod(shape[:2])))
            self._places, self._masks = _shared(memory, shape, most)
            process = subprocess.Popen(  # noqa: S603  # ourselves
                [sys.executable, "-P", "-m", __name__, str(memory)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=(memory,),
                env={**os.environ, **_ALONE, "PYTHONPATH": known},
                start_new_session=True,  # Ctrl-C is for those who train
            )
        finally:
            os.close(memory)
        weakref.finalize(self, _end, process)
        assert process.stdin is not None  # noqa: S101  # they are pipes
        assert process.stdout is not None  # noqa: S101
        self._questions, self._answers = process.stdin, process.stdout
        self._send((examples, crop, shape, most))

    def fill(
        self,
        numbers: Sequence[int],
        drawn: NDArray[np.float64],
        places: NDArray[np.uint8],
        masks: NDArray[np.uint8] | None = None,
    ) -> None:
        """See `Decoder.fill`.

        Raises:
            DatasetError: the process has ended.
        """
        self._send((list(numbers), drawn))
        try:
            error = pickle.load(self._answers)  # noqa: S301  # ourselves
        except EOFError:
            raise _ended() from None
        if error is not None:
            raise error
        places[...] = self._places[: len(numbers)]
        if masks is not None:
            masks[...] = self._masks[: len(numbers)]

    def _send(self, question: object) -> None:
        try:
            pickle.dump(question, self._questions, pickle.HIGHEST_PROTOCOL)
            self._questions.flush()
        except BrokenPipeError:
            raise _ended() from None


def _shared(
    memory: int, shape: tuple[int, ...], most: int
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Places of images, and of masks, if there are any."""
    whole = np.frombuffer(mmap.mmap(memory, 0), np.uint8)
    images, masks = np.split(whole, [most * math.prod(shape)])
    return images.reshape(-1, *shape), masks.reshape(-1, *shape[:2])


def _ended() -> DatasetError:
    return DatasetError(
        "a process that decodes has ended, see the lines above; if it was killed for its memory, "
        "give fewer threads"
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    """Which ends where its questions do."""
    assert process.stdin is not None  # noqa: S101  # it is a pipe
    assert process.stdout is not None  # noqa: S101
    with suppress(OSError):  # it ended before
        process.stdin.close()
    process.stdout.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(_ENDING_SECONDS)


def _serve(memory: int, questions: IO[bytes], answers: IO[bytes]) -> None:
    examples, crop, shape, most = pickle.load(questions)  # noqa: S301  # of whoever started this
    decoder, (places, masks) = Decoder(examples, crop), _shared(memory, shape, most)
    with suppress(EOFError, BrokenPipeError):
        while True:
            numbers, drawn = pickle.load(questions)  # noqa: S301
            error: Exception | None = None
            try:
                wanted = masks[: len(numbers)] if len(masks) else None
                decoder.fill(numbers, drawn, places[: len(numbers)], wanted)
            except Exception as found:  # noqa: BLE001  # the thread that asked raises it
                error = found
            pickle.dump(error, answers)
            answers.flush()


if __name__ == "__main__":
    with os.fdopen(os.dup(1), "wb") as ours:
        os.dup2(2, 1)  # what a library prints is no answer
        _serve(int(sys.argv[1]), sys.stdin.buffer, ours)
