"""Shares as people write them: one grammar, exact."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep.options import part, share
from dataprep.system.shares import read_share, share_text


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        *((text, Fraction(1, 10)) for text in (0.1, "0.1", ".1", "10%", "10.0%", "1/10", "1e-1")),
        ("12.3456789%", Fraction(123456789, 10**9)),
        ("0", Fraction(0)),
        ("100%", Fraction(1)),
        (1e-05, Fraction(1, 100_000)),
        (" 1/3 ", Fraction(1, 3)),
        (Fraction(2, 7), Fraction(2, 7)),
    ],
)
def test_one_grammar(value: object, expected: Fraction) -> None:
    assert read_share(value) == expected


@pytest.mark.parametrize(
    "text",
    ["", "%", ".", "x", "-0.1", "1.1", "101%", "1/0", "3/2", "nan", "1e-99", "1e9999999", "1 %",
     "1_0%", "٣%", "1/3%", "0." + "1" * 19],
)  # fmt: skip
def test_what_is_no_share(text: str) -> None:
    with pytest.raises(ValueError, match="no share"):
        read_share(text)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        *(("10%", "10%"), ("12.5%", "12.5%"), ("012.50%", "12.5%"), ("0.1", "10%")),
        *(("12.3456789%", "12.3456789%"), ("0.00000012%", "0.00000012%"), ("1/3", "1/3")),
        *(("100%", "100%"), ("1/8", "12.5%")),
    ],
)
def test_a_limit_is_kept_exactly(text: str, kept: str) -> None:
    found = part(text)
    assert isinstance(found, Fraction)
    assert share_text(found) == kept
    assert read_share(kept) == found == share(text)


def test_a_limit_without_a_point_is_a_number() -> None:
    assert (part("1"), part("10"), part(7)) == (1, 10, 7)


@given(st.fractions(0, 1, max_denominator=10**18))
def test_the_text_of_a_share_is_that_share(exact: Fraction) -> None:
    assert read_share(share_text(exact)) == exact
