"""Hostile bytes made of valid ones; the same random state makes the same.

Most of what breaks a parser is a length, a count, an offset or a number in text that is not what
it was, so those are what is changed most; then bits, cuts, repetitions and pieces of other inputs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Literal

_MOST = 1 << 20  # bytes of an input

_NUMBERS = (
    *(0, 1, 2, 7, 0x7F, 0x80, 0xFF, 0x100, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 1 << 24),
    *(2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**53, 2**63 - 1, 2**63, 2**64 - 1),
)
_TEXTS = (
    *(b"", b"0", b"-1", b"007", b"4294967296", b"9" * 19, b"9" * 30, b"9" * 5000, b"1e999", b"nan"),
    *(b"../../up", b"/etc/passwd", b"..", b".", b"\0", b"\x1b[2J", b"\xe2\x80\xae", b"\xff\xfe"),
    *(b"a" * 300, b"a/" * 3000, b'"', b"'", b",", b"\t", b"\n", b"\r\n", b"[", b"]", b"[0-", b"{"),
    *(b"train", b"validation", b"test", b"%s%n", b"|", b"\xef\xbb\xbf"),
)
_DIGITS = re.compile(rb"[0-9]+")

Edit = Callable[[Random, bytearray, Sequence[bytes]], None]


def mutated(random: Random, seeds: Sequence[bytes]) -> bytes:
    """One of the seeds with 1 to 8 things changed."""
    data = bytearray(random.choice(seeds))
    for _ in range(random.choice((1, 1, 1, 2, 2, 3, 5, 8))):
        random.choice(_EDITS)(random, data, seeds)
    return bytes(data[:_MOST])


def _place(random: Random, data: bytearray) -> int:
    """Anywhere; but as often as not near an end, where headers and directories are."""
    near = random.choice((len(data), len(data), 64, 600))
    at = random.randrange(max(1, min(near, len(data))))
    return at if random.random() < 0.6 else max(0, len(data) - 1 - at)


def _flip(random: Random, data: bytearray, _: Sequence[bytes]) -> None:
    if data:
        data[_place(random, data)] ^= 1 << random.randrange(8)


def _byte(random: Random, data: bytearray, _: Sequence[bytes]) -> None:
    if data:
        data[_place(random, data)] = random.choice((0, 1, 0x20, 0x7F, 0x80, 0xFE, 0xFF))


def _number(random: Random, data: bytearray, _: Sequence[bytes]) -> None:
    size = random.choice((1, 2, 4, 4, 8, 8))
    at = _place(random, data)
    orders: tuple[Literal["little", "big"], ...] = ("little", "big")
    order = random.choice(orders)
    value = random.choice(_NUMBERS)
    if random.random() < 0.3:  # off by a little
        value = int.from_bytes(data[at : at + size], order) + random.choice((-1, 1, 8, -8, 4096))
    data[at : at + size] = (value % (1 << 8 * size)).to_bytes(size, order)


def _varint(random: Random, data: bytearray, _: Sequence[bytes]) -> None:
    """As Thrift's and Protocol Buffers' are."""
    value, text = random.choice(_NUMBERS), []
    while value > 127:
        text.append(value & 127 | 128)
        value >>= 7
    at = _place(random, data)
    data[at : at + random.choice((1, len(text) + 1))] = bytes([*text, value])


def _digits(random: Random, data: bytearray, _: Sequence[bytes]) -> None:
    """A number in text, in its own width half of the time, as in headers of fixed fields."""
    found = _DIGITS.search(data, _place(random, data))
    if found:
        text = random.choice((*_TEXTS[1:8], str(random.choice(_NUMBERS)).encode(), b"7" * 11))
        width = found.end() - found.start()
        data[found.start() : found.end()] = (
            text[:width].zfill(width) if random.getrandbits(1) else text
        )


def _text(random: Random, data: bytearray, _: Sequence[bytes]) -> None:
    at = _place(random, data)
    text = random.choice(_TEXTS)
    data[at : at + random.choice((0, 1, len(text)))] = text


def _cut(random: Random, data: bytearray, _: Sequence[bytes]) -> None:
    del data[_place(random, data) :]


def _remove(random: Random, data: bytearray, _: Sequence[bytes]) -> None:
    at = _place(random, data)
    del data[at : at + random.choice((1, 2, 4, 8, 64, 512))]


def _repeat(random: Random, data: bytearray, _: Sequence[bytes]) -> None:
    at = _place(random, data)
    piece = data[at : at + random.choice((1, 4, 64, 512, 2048))]
    data[at:at] = piece * random.choice((1, 1, 2, 3, 200))
    del data[_MOST:]


def _move(random: Random, data: bytearray, _: Sequence[bytes]) -> None:
    size = random.choice((1, 4, 8, 64, 512))
    here, there = _place(random, data), _place(random, data)
    data[there : there + size] = data[here : here + size]


def _splice(random: Random, data: bytearray, seeds: Sequence[bytes]) -> None:
    other = bytearray(random.choice(seeds))
    at, size = _place(random, other), random.choice((4, 16, 128, 512, 1 << 16))
    here = _place(random, data)
    data[here : here + random.choice((0, size))] = other[at : at + size]


_EDITS: tuple[Edit, ...] = (
    *(_flip, _flip, _byte, _byte, _number, _number, _number, _varint, _digits, _digits),
    *(_text, _text, _cut, _remove, _repeat, _move, _splice),
)
