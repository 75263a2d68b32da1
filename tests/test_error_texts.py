"""Messages are lines of plain words, in one form; `tests.error_texts` prints them all."""

from __future__ import annotations

import re

import pytest

from tests.error_texts import Text, collected

# What does not help, and what needs none: a program's words for itself, and politeness.
_EMPTY = re.compile(r"\b(please|invalid|illegal|oops|sorry|failed to|unable to|bad value)\b", re.I)


@pytest.fixture(scope="module")
def found() -> list[Text]:
    return [*collected()]


def test_all_are_found(found: list[Text]) -> None:
    assert len(found) > 500
    assert {"UsageError", "ImageError", "RejectedError"} <= {text.kind for text in found}
    said = {text.text for text in found}
    assert "--uncertain needs --label_columns, whose -1 it is about" in said  # as it stands
    assert any(text.startswith("{}: somebody else put") for text in said)  # a constant


def test_each_is_a_line_of_plain_words(found: list[Text]) -> None:
    wrong = re.compile(r"\n|  |[.!]$")
    assert [text for text in found if wrong.search(text.text)] == []
    assert [text for text in found if _EMPTY.search(text.text)] == []
