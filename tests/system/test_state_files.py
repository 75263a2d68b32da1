"""State files: what was written comes back, and nothing else ever does."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep.system.state_files import encode, read_state, write_state

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)
STATES = st.dictionaries(st.text(max_size=4).filter(lambda name: name != "checksum"), JSON)


@given(STATES)
def test_what_was_written_comes_back(tmp_path_factory: pytest.TempPathFactory, state) -> None:
    path = tmp_path_factory.getbasetemp() / "state.json"
    write_state(path, state)
    assert read_state(path) == state


def test_one_bit_anywhere_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    data = encode({"rows": 600, "names": ["a", "b"], "ok": True})
    for at in range(len(data)):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[at] ^= 1 << bit
            path.write_bytes(damaged)
            assert read_state(path) is None
    for length in range(len(data)):
        path.write_bytes(data[:length])
        assert read_state(path) is None


def test_what_is_no_file_counts_as_not_there_and_can_be_replaced(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    path.symlink_to("nowhere")
    assert read_state(path) is None
    write_state(path, {"rows": 1})
    assert read_state(path) == {"rows": 1}
