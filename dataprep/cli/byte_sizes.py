"""Sizes as people write them: ``150MB``, ``4MiB``, ``42GB``."""

from __future__ import annotations

import re

import click

from dataprep.system.messages import sized

_SCALES = {"": 1, "K": 1000, "M": 1000**2, "G": 1000**3, "T": 1000**4}
_BINARY = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40}


class ByteSize(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic since click 8.2
    """A number of bytes: decimal with ``KB`` …, binary with ``KiB`` ….

    Args:
        least: bytes that make sense.
    """

    name = "size"

    def __init__(self, least: int = 1) -> None:
        self._least = least

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Parse one."""
        if isinstance(value, int):
            return value
        text = str(value).strip()
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]i?|)B?", text)
        size = int(float(found[1]) * (_SCALES | _BINARY)[found[2]]) if found else 0
        if size < 1:
            self.fail(f"{text!r}: expected a size such as 500MB, 4MiB or 42GB.", param, ctx)
        if size < self._least:
            self.fail(f"{text!r}: expected {sized(self._least)} or more, e.g. 500MB.", param, ctx)
        return size
