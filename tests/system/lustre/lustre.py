"""A Lustre that is an ordinary directory, with `fake_lfs.py` as its `lfs`."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dataprep.system import filesystems

_SCRIPT = Path(__file__).with_name("fake_lfs.py")
_MIB = 1 << 20

Part = tuple[int, int, int | None, str]
"""Count, size, end and pool."""


def layout(*parts: Part) -> list[dict[str, Any]]:
    """As the fake keeps it."""
    names = ("count", "size", "end", "pool")
    return [dict(zip(names, part, strict=True)) for part in parts]


# A site's progressive default.
PROGRESSIVE = layout(
    (1, _MIB, 256 * _MIB, ""), (4, _MIB, 4096 * _MIB, ""), (-1, 4 * _MIB, None, "")
)


@dataclass(frozen=True)
class Lustre:
    """Where it is, and what its `lfs` is told and did."""

    mount: Path
    state: Path

    def set(self, **values: object) -> None:
        """Change what the site is like."""
        self.state.write_text(json.dumps({**self._state(), **values}))

    def layout(self, path: Path) -> list[dict[str, Any]]:
        """What was set for a path itself."""
        found: list[dict[str, Any]] = self._state()["layouts"][str(path)]
        return found

    def stripes(self, path: Path) -> list[int]:
        """How many it has, component by component."""
        return [part["count"] for part in self.layout(path)]

    def calls(self, name: str = "") -> list[list[str]]:
        """The words of every call, or of those of one subcommand."""
        return [call["words"] for call in self._calls() if name in ("", call["words"][0])]

    def seen(self, path: Path) -> list[str]:
        """What was in a directory when its layout was set."""
        found: list[str]
        (found,) = (
            call["seen"]
            for call in self._calls()
            if call["words"][0] == "setstripe" and call["words"][-1] == str(path)
        )
        return found

    def forget_calls(self) -> None:
        """As if nothing had been run."""
        self._log.unlink(missing_ok=True)

    @property
    def _log(self) -> Path:
        return self.state.with_name(self.state.name + ".calls")

    def _calls(self) -> list[dict[str, Any]]:
        if not self._log.exists():
            return []
        return [json.loads(line) for line in self._log.read_text().splitlines()]

    def _state(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.state.read_text())
        return found


def make_lustre(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Lustre:
    """Mount one below an empty directory: its type and its `lfs` are found, by this process."""
    place = directory.resolve()
    mount, programs, state = place / "lustre", place / "programs", place / "state.json"
    mount.mkdir()
    programs.mkdir()
    program = programs / "lfs"
    # -I -S: it starts in a third of the time.
    program.write_text(f"#!{sys.executable} -IS\n{_SCRIPT.read_text()}")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    monkeypatch.setenv("FAKE_LFS", str(state))
    values = {
        "mount": str(mount),
        "osts": 16,
        "default": layout((1, _MIB, None, "")),
        "restricted": False,
        "mute": False,
        "fails": {},
        "pools": ["flash"],
        "layouts": {},
    }
    state.write_text(json.dumps(values))
    real = filesystems.filesystem_of

    def filesystem_of(path: Path) -> str:
        found = path.resolve()
        return "lustre" if found == mount or mount in found.parents else real(path)

    monkeypatch.setattr("dataprep.system.filesystems.filesystem_of", filesystem_of)
    monkeypatch.setattr("dataprep.jobs.running.build_directory.filesystem_of", filesystem_of)
    monkeypatch.setattr("os.path.ismount", lambda path: Path(path) in (mount, Path("/")))
    return Lustre(mount, state)
