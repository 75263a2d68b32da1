"""State files: what was written comes back, and nothing else ever does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep.errors import DatasetError
from dataprep.system.state_files import (
    encode,
    hashed,
    parse,
    read_document,
    read_state,
    write_state,
)
from dataprep_schemas.state import Failure, StoredOrder
from tests.forging import rehashed

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
ORDER = hashed(
    StoredOrder(token="0" * 64, ends=(200, 400, 600), blocks=("1" * 64,), block_ends=(600,))
)


@given(st.builds(Failure, kind=TEXT, message=TEXT, traceback=TEXT))
def test_what_was_written_comes_back(
    tmp_path_factory: pytest.TempPathFactory, document: Failure
) -> None:
    path = tmp_path_factory.getbasetemp() / "state.json"
    write_state(path, document)
    assert read_state(path, Failure) == hashed(document)


def test_one_bit_anywhere_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    data = encode(ORDER)
    for at in range(len(data)):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[at] ^= 1 << bit
            path.write_bytes(damaged)
            assert read_state(path, StoredOrder) is None
    for length in range(len(data)):
        path.write_bytes(data[:length])
        assert read_state(path, StoredOrder) is None


def test_a_hash_is_that_of_the_file_without_it() -> None:
    assert rehashed(json.loads(encode(ORDER))) == encode(ORDER)


def test_a_link_counts_as_not_there_and_is_replaced(tmp_path: Path) -> None:
    path, elsewhere = tmp_path / "state.json", tmp_path / "elsewhere"
    write_state(elsewhere, ORDER)
    path.symlink_to(elsewhere)
    assert read_state(path, StoredOrder) is None
    write_state(path, ORDER)
    assert read_state(path, StoredOrder) == ORDER
    assert not path.is_symlink()


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"format": "dataprep-order-1"}, "its format is 'dataprep-order-1', this version reads"),
        ({"format": "dataprep-\x1b[2J"}, r"its format is 'dataprep-\\x1b\[2J', this version"),
        ({"ends": [-1]}, r"Expected `int` >= 0 - at `\$\.ends\[0\]`"),
        ({"ends": [2**53]}, r"Expected `int` <= \d+ - at `\$\.ends\[0\]`"),
        ({"ends": [1.0]}, r"Expected `int`, got `float` - at `\$\.ends\[0\]`"),
        ({"ends": [None]}, r"Expected `int`, got `null` - at `\$\.ends\[0\]`"),
        ({"blocks": ["1" * 64 + "\n"]}, r"Expected `str` of length <= 64 - at `\$\.blocks\[0\]`"),
        ({"blocks": 5}, r"Expected `array`, got `int` - at `\$\.blocks`"),
        ({"more": 1}, r"Object contains unknown field `more`"),
    ],
)
def test_what_is_wrong_and_where_is_said_in_a_line(
    tmp_path: Path, change: dict[str, object], what: str
) -> None:
    path = tmp_path / "state.json"
    path.write_bytes(rehashed({**json.loads(encode(ORDER)), **change}))
    with pytest.raises(DatasetError, match=what) as caught:
        read_document(path, StoredOrder, "make it again")
    assert str(caught.value).startswith(f"{path}: ")
    assert str(caught.value).endswith("; make it again")
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"null", b"[]", b"\xff", b"{" * 100_000, b"[" * 100_000, b'{"format": ["a"]}'),
        *(encode(ORDER) * 2, encode(ORDER).replace(b"600", b"6e2"), encode(ORDER)[:-1]),
        encode(ORDER).replace(b' "token": ', b' "token": "1",\n "token": '),
        b'{"format": "dataprep-order-3", "token": "\\ud800"}',
    ],
)
def test_what_is_not_written_by_us_is_refused(data: bytes) -> None:
    with pytest.raises(DatasetError) as caught:
        parse(data, StoredOrder, "state.json", "make it again")
    assert str(caught.value).isprintable()


def test_text_that_is_not_utf_8_is_refused_before_it_is_written() -> None:
    with pytest.raises(DatasetError, match="is not UTF-8, and cannot be written down"):
        encode(Failure(kind="a", message="\udcff", traceback=""))
