"""RecordIO framing: what is cut, what comes back, and what damage is noticed."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep.errors import SinkError
from dataprep.sinks.recordio_framing import LENGTH_LIMIT, frame, read_record, skip_record

MAGIC = bytes.fromhex("0a23d7ce")
# Magics at every alignment, adjacent and at the ends.
payloads = st.lists(st.one_of(st.just(MAGIC), st.binary(max_size=9)), max_size=8).map(b"".join)


def read_all(data: bytes) -> list[bytes]:
    file = io.BytesIO(data)
    found = []
    at = 0
    while at < len(data):
        skipped = skip_record(file, at, len(data))
        record, at = read_record(file, at, len(data))
        assert at == skipped
        found.append(record)
    return found


@given(st.lists(payloads, max_size=5))
def test_records_come_back(records: list[bytes]) -> None:
    framed = [b"".join(frame(record)) for record in records]
    assert read_all(b"".join(framed)) == records
    for one in framed:
        starts = [at for at in range(0, len(one), 4) if one[at : at + 4] == MAGIC]
        flags = [one[at + 7] >> 5 for at in starts]  # an aligned magic always begins a part
        assert flags == [0] or (flags[0], flags[-1]) == (1, 3)
        assert set(flags[1:-1]) <= {2}
        assert len(one) % 4 == 0


@given(payloads)
def test_every_truncation_is_noticed(record: bytes) -> None:
    framed = b"".join(frame(record))
    for size in range(1, len(framed)):
        with pytest.raises(SinkError, match="the file ends at byte"):
            read_all(framed[:size])


def test_every_flipped_bit_of_the_framing_is_noticed() -> None:
    # Lengths that are multiples of 4, then one with three bytes of padding.
    record = b"abcd" + MAGIC + b"efghijkl" + MAGIC + MAGIC + b"x"
    framed = b"".join([*frame(record), *frame(b"next")])
    parts = [at for at in range(0, len(framed), 4) if framed[at : at + 4] == MAGIC]
    assert len(parts) == 5
    last = parts[3]
    framing = {at for part in parts for at in range(part, part + 8)} | set(
        range(last + 9, last + 12)
    )
    for at in sorted(framing):
        for bit in range(8):
            if at == last + 4 and bit in (1,):
                continue  # a length of 3 instead of 1: the padding becomes data
            damaged = bytearray(framed)
            damaged[at] ^= 1 << bit
            with pytest.raises(SinkError):
                read_all(bytes(damaged))


def test_a_magic_that_was_not_cut_out_is_refused() -> None:
    whole = MAGIC + (8).to_bytes(4, "little") + b"abcd" + MAGIC
    with pytest.raises(SinkError, match="holds the magic number where no reader may find it"):
        read_all(whole)


def test_too_long_a_record_is_refused() -> None:
    with pytest.raises(SinkError, match="536870912 bytes; RecordIO holds less than 536870912"):
        frame(bytes(LENGTH_LIMIT))
