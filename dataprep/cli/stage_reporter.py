"""What a person sees of staging: lines, and a bar on a terminal or a line now and then without."""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

import click
from tqdm import tqdm

from dataprep.system.messages import sized

_LINE_SECONDS = 30.0


class TerminalStageReporter:
    """Lines on stdout, progress on stderr.

    Args:
        quiet_stdout: whether lines go to stderr too, because stdout is for a program.
    """

    def __init__(self, *, quiet_stdout: bool = False) -> None:
        self._stream = sys.stderr if quiet_stdout else sys.stdout
        self._lock = threading.Lock()
        self._bar: tqdm[Any] | None = None
        self._total = self._done = 0
        self._said = 0.0

    def line(self, text: str) -> None:
        """Something worth a line."""
        with self._lock, tqdm.external_write_mode(file=self._stream):
            click.echo(text, file=self._stream)

    def copying(self, files: int, total: int) -> None:
        """So many files and bytes are about to be copied on this node."""
        self._total, self._done, self._said = total, 0, time.monotonic()
        if files and sys.stderr.isatty():
            self._bar = tqdm(
                desc="stage", total=total, unit="B", unit_scale=True, dynamic_ncols=True
            )

    def advance(self, count: int) -> None:
        """So many more bytes are copied."""
        with self._lock:
            self._done += count
            if self._bar is not None:
                self._bar.update(count)
            elif time.monotonic() - self._said >= _LINE_SECONDS:
                self._said = time.monotonic()
                text = f"stage: {sized(self._done)} of {sized(self._total)}"
                click.echo(text, err=True)

    def finished(self) -> None:
        """The copying is over, one way or another."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None
