"""Shares of a whole as people write them: ``0.1``, ``10%`` and ``1/10`` are the same, exactly."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

_NUMBER: Final = r"(?:\d{1,18}(?:\.\d{0,18})?|\.\d{1,18})(?:e-?\d{1,2})?"
_SHARE: Final = re.compile(rf"({_NUMBER})(%)?|(\d{{1,18}}/\d{{1,18}})", re.ASCII | re.IGNORECASE)
_FINEST: Final = 10**24  # times the images of a split, this fits into the database's integers
_LONGEST: Final = 10**18  # digits behind the point, as above


def read_share(value: object) -> Fraction:
    """A share from 0 to 1, exactly as it is written; of a float, as Python writes it.

    Raises:
        ValueError: it is none.
    """
    if isinstance(value, Fraction):
        share = value
    elif (match := _SHARE.fullmatch(str(value).strip())) is None:
        raise ValueError("no share")
    else:
        number, percent, ratio = match.groups()
        try:
            share = Fraction(number or ratio) / (100 if percent else 1)
        except ZeroDivisionError:
            raise ValueError("no share") from None
    if not 0 <= share <= 1 or share.denominator > _FINEST:
        raise ValueError("no share")
    return share


def share_text(share: Fraction) -> str:
    """A share as a percentage, or, where that would have no end, as a fraction."""
    scale = 1
    while scale <= _LONGEST:
        if (scaled := share * 100 * scale).denominator == 1:
            whole, rest = divmod(scaled.numerator, scale)
            digits = str(rest).rjust(len(str(scale)) - 1, "0").rstrip("0") if rest else ""
            return f"{whole}.{digits}%" if digits else f"{whole}%"
        scale *= 10
    return f"{share.numerator}/{share.denominator}"
