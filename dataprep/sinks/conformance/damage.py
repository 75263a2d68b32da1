"""Conformance: damaged files give one line, never a crash, a hang or a traceback."""

# ruff: noqa: S101, D102 - these are tests: asserts, and names that say what they are

from __future__ import annotations

import random
import shutil
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dataprep.errors import DataprepError
from dataprep.sinks.base import DatasetInfo, ShardReader, Sink
from dataprep.sinks.conformance.material import Case
from dataprep.sinks.conformance.process import in_another_process
from dataprep.sinks.conformance.shards import Shard, held, write_shard

_FLIPS = 32


@dataclass(frozen=True)
class Damaged:
    """A copy of a shard with something wrong with it."""

    name: str
    paths: tuple[Path, ...]


@dataclass(frozen=True)
class Outcome:
    """What came of reading it in one way.

    Attributes:
        name: of the damage and the way.
        paths: what was read.
        refusal: the message of the DataprepError, if one was raised.
        accident: the traceback of any other exception.
    """

    name: str
    paths: tuple[Path, ...]
    refusal: str = ""
    accident: str = ""


class DamageTests:
    """Readers of files that are not what they were."""

    def test_damage_is_one_line_and_never_an_accident(self, variant: Sink, tmp_path: Path) -> None:
        case = held(variant)
        outcomes = _outcomes(variant, case, tmp_path, _damages)
        assert [it.name + "\n" + it.accident for it in outcomes if it.accident] == []
        for outcome in outcomes:
            if outcome.refusal:
                assert "\n" not in outcome.refusal, outcome.name
                named = [path for path in outcome.paths if str(path) in outcome.refusal]
                assert named, f"{outcome.name}: no file is named in: {outcome.refusal}"

    def test_half_a_shard_is_noticed(self, variant: Sink, tmp_path: Path) -> None:
        case = held(variant)
        outcomes = _outcomes(variant, case, tmp_path, lambda content: {"half": _half(content)})
        missed = [it.name for it in outcomes if it.name.startswith("data half") and not it.refusal]
        assert "data half, iterating" not in missed


def read_damaged(sink: Sink, info: DatasetInfo, damaged: Sequence[Damaged]) -> list[Outcome]:
    """Read every shard in every way; printing first what is tried, should it be the last."""
    outcomes = []
    for shard in damaged:
        for way, read in _WAYS.items():
            name = f"{shard.name}, {way}"
            print(name, flush=True)  # noqa: T201 - for the process that waits
            try:
                with sink.reader(shard.paths, info) as reader:
                    read(reader)
            except DataprepError as error:
                outcomes.append(Outcome(name, shard.paths, refusal=str(error)))
            except Exception:  # noqa: BLE001 - this is what is being looked for
                outcomes.append(Outcome(name, shard.paths, accident=traceback.format_exc()))
            else:
                outcomes.append(Outcome(name, shard.paths))
    return outcomes


_WAYS: dict[str, Callable[[ShardReader], object]] = {
    "iterating": list,
    "at random": lambda reader: [reader[number] for number in reversed(range(len(reader)))],
    "keys": lambda reader: list(reader.keys()),
}


def _outcomes(
    sink: Sink, case: Case, root: Path, damages: Callable[[bytes], dict[str, bytes]]
) -> list[Outcome]:
    info = case.info_for(sink)
    shard = write_shard(sink, info, case.examples(sink, 6), root / "whole")
    damaged = list(_damaged_copies(shard, root, damages))
    return in_another_process(read_damaged, sink, info, damaged, directory=root)


def _damaged_copies(
    shard: Shard, root: Path, damages: Callable[[bytes], dict[str, bytes]]
) -> Iterator[Damaged]:
    for place, victim in enumerate(shard.paths):
        part = f"sidecar {place}" if place else "data"
        for number, (name, content) in enumerate(damages(victim.read_bytes()).items()):
            copy = root / f"damaged-{place}-{number}"
            paths = tuple(copy / file for file in shard.names)
            for original, path in zip(shard.paths, paths, strict=True):
                path.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(original, path)
            paths[place].write_bytes(content)
            yield Damaged(f"{part} {name}", paths)
            if not place and len(paths) > 1:
                yield Damaged(f"{part} alone {name}", paths[:1])


def _half(content: bytes) -> bytes:
    return content[: len(content) // 2]


def _damages(content: bytes) -> dict[str, bytes]:
    chance = random.Random(0)  # noqa: S311
    size = len(content)
    found = {
        "empty": b"",
        "half": _half(content),
        "garbage": chance.randbytes(max(size, 64)),
        "zeros": bytes(size),
        "ones": b"\xff" * size,
        "text": b"Not Found\n" * (size // 10 + 1),
        "more": content + chance.randbytes(100),
        "twice": content * 2,
        "zeros in the middle": content[: size // 3] + bytes(size // 3) + content[2 * size // 3 :],
        "garbage at the beginning": chance.randbytes(min(64, size)) + content[64:],
        "shifted": b"\0" + content,
    }
    for length in {1, 3, 8, 17, 100, size // 4, size // 3, size * 3 // 4, size - 100, size - 1}:
        if 0 < length < size:
            found[f"cut to {length} bytes"] = content[:length]
    for _ in range(_FLIPS if size else 0):
        # Beginnings hold the numbers that readers believe.
        position = chance.randrange(min(size, chance.choice((32, 512, size))))
        flipped = bytearray(content)
        flipped[position] ^= 1 << chance.randrange(8)
        found[f"bit flipped in byte {position}"] = bytes(flipped)
    return found
