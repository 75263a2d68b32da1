"""What a run's processes tell each other is in files: where those fail, the user gets one line."""

from __future__ import annotations

import builtins
import errno
import io
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from dataprep.errors import SinkError, SourceError
from dataprep_pipelines import run, scan, write
from tests.conftest import Cli, Made

_FILES = re.compile(r"/\.?(task-)?failure-")
_FEW = ("--num_shards", "train=2,validation=1")
_CALLS = ("open", "replace", "unlink", "stat", "scandir")


@dataclass
class Faults:
    """Refuses the operation of this number on the files of a run; and all later ones, if it stays.

    Attributes:
        pattern: of the operations that count, such as ``open .*task``.
    """

    number: int
    code: int
    stays: bool = False
    pattern: str = ""
    seen: list[str] = field(default_factory=list)

    def install(self, patch: pytest.MonkeyPatch) -> None:
        for name in _CALLS:
            patch.setattr(os, name, self._refusing(name, getattr(os, name)))
        for module in (io, builtins):
            patch.setattr(module, "open", self._refusing("open", io.open))

    def _refusing(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def refusing(path: Any, *args: Any, **options: Any) -> Any:
            operation = f"{name} {path}"
            if _FILES.search(operation) and re.search(self.pattern, operation):
                self.seen.append(operation)
                if len(self.seen) == self.number or (self.stays and len(self.seen) > self.number):
                    raise OSError(self.code, os.strerror(self.code), str(path))
            return call(path, *args, **options)

        return refusing


def _fail(patch: pytest.MonkeyPatch, where: str) -> None:
    """Let every shard, or every scan, raise that: something has to be told."""

    def fail(*args: object, **options: object) -> None:
        raise {"shard": SinkError, "scan": SourceError, "defect": ZeroDivisionError}[where](
            "planted"
        )

    if where == "scan":
        patch.setattr(scan, "scan_into", fail)
        patch.setattr(scan, "_ALONE_SECONDS", -1.0)  # in a worker
        patch.setattr(scan, "_WORTH_SECONDS", -1.0)
    elif where:
        patch.setattr(write, "write_shard", fail)


def _said(text: str, caplog: pytest.LogCaptureFixture) -> list[str]:
    """What is more than a line of ours."""
    lines = text.splitlines()
    bad = [line for line in lines if "Traceback" in line or "while running" in line]
    bad += [line for line in lines if "Beam failed" in line or "unexpected OSError" in line]
    return bad + [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize(
    ("fails", "pattern", "code", "said"),
    [
        ("", "open .*/task-.*write", errno.EIO, r"a worker on .* cannot read .*/task-.*: Input/"),
        ("shard", "open .*/(.failure|task.*reserve)", errno.EROFS, r"planted; and .* Read-only "),
    ],
)
def test_a_file_that_fails_in_a_worker_is_one_line(
    cli: Cli,
    tiny: Made,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    fails: str,
    pattern: str,
    code: int,
    said: str,
) -> None:
    with monkeypatch.context() as patch:
        _fail(patch, fails)
        Faults(1, code, stays=True, pattern=pattern).install(patch)
        result = cli(*tiny.command(tmp_path / "out", "--workers", 1))
    assert result.code == 1
    assert re.search(f"dataprep: error: {said}", result.error)
    assert _said(result.err, caplog) == []


@pytest.mark.thorough
@pytest.mark.parametrize("fails", ["", "shard", "scan", "defect"])
def test_whatever_operation_fails_is_one_line_and_is_healed(
    cli: Cli, tiny: Made, tmp_path: Path, caplog: pytest.LogCaptureFixture, fails: str
) -> None:
    command, unclear = tiny.command(tmp_path / "out", *_FEW, "--workers", 1, "--overwrite"), {}
    for number in count(1):
        code = (errno.EIO, errno.EROFS, errno.ENOSPC)[number % 3]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(run, "_PAUSES", ())
            _fail(patch, fails)
            faults = Faults(number, code, stays=number % 2 == 0)
            faults.install(patch)
            result = cli(*command)
        if len(faults.seen) < number:
            break
        words = (os.strerror(code), "planted", "no space left")
        told = result.code == (1 if fails else result.code) and (
            result.code == 0 or any(word in result.error for word in words)
        )
        if not told or _said(result.err, caplog):
            unclear[faults.seen[number - 1]] = result.err, [*caplog.records]
        caplog.clear()
    assert number > 15
    assert unclear == {}
    assert cli(*command).code == 0
