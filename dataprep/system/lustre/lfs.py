"""Running `lfs`, Lustre's own tool, as the site installed it.

What it says differs from version to version, so nothing is concluded from its messages: only from
its exit code, and from what it prints of layouts. Exit codes: |-errno| of the first failure, 4 for
wrong usage, and a success is no proof (see `Lfs.set_layout`).
"""

from __future__ import annotations

import errno
import os
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from dataprep.errors import DatasetError
from dataprep.system.lustre.rules import GIB, KIB, MIB, Component, Layout
from dataprep.system.messages import printable

_SECONDS = 60.0  # for a question; a file system that is down answers never
_USAGE = 4

# The labels of layouts are the same in all forms that Lustre has had: as lines, as one line for a
# directory, with --yaml, and nested in composites in a way that changed in 2.16. So the labels are
# read in the order in which they come, and their nesting is not.
_LABELLED = re.compile(
    r"(?:^|(?<=\s))(?:lmm_)?(lcm_entry_count|lcme_extent\.e_end|stripe_count|stripe_size"
    r"|extension_size|pool):[ \t]+(\S+)"
)
_TARGET = re.compile(r"\[OST:\d+\][ \t]*([A-Za-z]*)[ \t]*$", re.MULTILINE)
# States in which no new file gets a stripe there: no precreation, read-only, no space or inodes.
_CLOSED = frozenset("NRSI")


class LfsError(DatasetError):
    """`lfs` could not be run, or failed."""


@dataclass(frozen=True, slots=True)
class Lfs:
    """The tool.

    Attributes:
        program: where it is.
    """

    program: str

    def set_layout(self, directory: Path, layout: Layout) -> None:
        """Set the default of a directory; its new files and subdirectories take it over.

        That it succeeds does not mean that the directory has the layout: where an administrator
        restricts ``setstripe`` (since Lustre 2.16) it sets another and exits with 0.

        Args:
            directory: must be one: a path without anything would become a file.
            layout: what to ask for.

        Raises:
            LfsError: it failed.
        """
        self._succeed(setstripe_words(layout, directory))

    def layout_of(self, path: Path) -> Layout | None:
        """The layout of a file, or the default of a directory; None if it cannot be told.

        Raises:
            LfsError: `lfs` cannot be run.
        """
        what = ["-d"] if path.is_dir() else []
        for form in (["-y"], []):  # before 2.11 there was no YAML
            done = self._run(["lfs", "getstripe", *what, *form, str(path)])
            layout = parse_layout(done.stdout)
            if done.returncode == 0 and layout is not None:
                return layout
        return None

    def targets(self, path: Path) -> int | None:
        """How many object storage targets new files can use; None if it cannot be told.

        Raises:
            LfsError: `lfs` cannot be run.
        """
        return count_targets(self._run(["lfs", "df", str(path)]).stdout)

    def _succeed(self, words: list[str]) -> None:
        done = self._run(words)
        if done.returncode:
            said = [line for line in done.stderr.splitlines() if line.strip()]
            quoted = f"; it says: {printable(said[0].strip())}" if said else ""
            raise LfsError(
                f"`{shlex.join(words)}` failed: {_meaning(done.returncode)}{quoted}; "
                "try it by hand, or ask the site's support"
            )

    def _run(self, words: list[str]) -> subprocess.CompletedProcess[str]:
        try:
            # The site's own program, without a shell.
            return subprocess.run(  # noqa: S603
                [self.program, *words[1:]],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
                errors="backslashreplace",
                timeout=_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise LfsError(
                f"`{shlex.join(words)}` did not answer within {_SECONDS:.0f} s; "
                "check that the file system is healthy"
            ) from error
        except OSError as error:
            raise LfsError(
                f"{self.program} cannot be run: {error.strerror}; check the installation of Lustre"
            ) from error


def find_lfs(directory: Path) -> Lfs:
    """The `lfs` on ``PATH``.

    Args:
        directory: on Lustre; for the message.

    Raises:
        LfsError: there is none.
    """
    program = shutil.which("lfs")
    if program is None:
        raise LfsError(
            f"{directory} is on Lustre, but there is no `lfs` on PATH; load the site's module for "
            "it, or run `dataprep stripe` where it is, such as on a login node"
        )
    return Lfs(program)


def setstripe_words(layout: Layout, directory: Path) -> list[str]:
    """The command line that sets a directory's default."""
    return ["lfs", "setstripe", *_options(layout), str(directory)]


def _options(layout: Layout) -> list[str]:
    """Count and size are always both given: ``setstripe`` sets both, whatever it was told."""
    words: list[str] = []
    for part in layout.components:
        if layout.composite:
            words += ["-E", "-1" if part.end is None else _size(part.end)]
        words += ["-c", str(part.count), "-S", _size(part.size)]
        if part.pool:
            words += ["-p", part.pool]
    return words


def _size(count: int) -> str:
    """With a unit, because bare numbers below 4096 are taken for KiB."""
    for unit, scale in (("G", GIB), ("M", MIB)):
        if count % scale == 0:
            return f"{count // scale}{unit}"
    return f"{count // KIB}K"


def _meaning(code: int) -> str:
    if code == _USAGE:
        return f"exit code {code}, this `lfs` does not know an option or a value of it"
    # 1 is what `lfs` also says for whatever it has no number for.
    if code > 1 and code in errno.errorcode:
        return f"exit code {code}, {os.strerror(code)}"
    return f"exit code {code}"


def parse_layout(text: str) -> Layout | None:
    """One file's or one directory's layout.

    Args:
        text: what ``lfs getstripe [-d] [-y] PATH`` printed, by any version.

    Returns:
        The layout; None if there is none in the text.
    """
    composite = False
    parts: list[dict[str, str]] = [{}]
    for name, value in _LABELLED.findall(text):
        if name == "lcm_entry_count":
            composite = True
        elif name == "lcme_extent.e_end" and parts[-1]:
            parts.append({name: value})
        else:
            parts[-1].setdefault(name, value)
    try:
        return Layout(tuple(map(_component, parts)), composite)
    except (KeyError, ValueError):
        return None


def count_targets(text: str) -> int | None:
    """How many targets new files can use.

    Args:
        text: what ``lfs df PATH`` printed.

    Returns:
        None if there is no such table in the text.
    """
    return sum(not _CLOSED & set(state) for state in _TARGET.findall(text)) or None


def _component(labels: dict[str, str]) -> Component:
    end = labels.get("lcme_extent.e_end", "EOF")
    return Component(
        count=int(labels["stripe_count"]),
        # The part of a self-extending layout that is still to come has no stripes yet.
        size=int(labels.get("stripe_size") or labels["extension_size"]),
        end=None if end in ("EOF", "-1") else int(end),
        pool=labels.get("pool", ""),
    )
