"""The command that makes a data set, which is kept with its job: to be typed again, or shown."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from dataprep.jobs.workspace import Workspace
from dataprep.system.messages import printable
from dataprep.system.own_key import is_proven, proof_of
from dataprep.system.state_files import digest_of, read_state
from dataprep_schemas.state import StoredJob

_PLACES: Final = {
    **dict.fromkeys(("__raw", "__raw_data_dir"), "RAW"),
    **dict.fromkeys(("__out", "__local_scratch_dir", "__to"), "OUT"),
}


def typed_command() -> str:
    """What to type to go on, for `dataprep status`: what was, but to delete nothing once more.

    Empty where another program calls the library.
    """
    program, *words = sys.argv
    words = [word for word in words if word.replace("-", "_") != "__overwrite"]
    if Path(program).name != "dataprep" and Path(program).parts[-2:] != ("dataprep", "__main__.py"):
        return ""
    try:
        return _joined(str(Path.cwd()), ["dataprep", *words])
    except FileNotFoundError:  # the working directory was deleted
        return ""


def _joined(directory: str, words: Sequence[str]) -> str:
    return printable(f"cd {shlex.quote(directory)} && {shlex.join(words)}")


def with_typed_command(job: StoredJob) -> StoredJob:
    """A new job with its command, and the proof that it is this user's."""
    job = msgspec.structs.replace(job, command=typed_command())
    return msgspec.structs.replace(job, proof=proof_of(_proven(job))) if job.command else job


def _proven(job: StoredJob) -> bytes:
    return f"job {digest_of(msgspec.structs.replace(job, proof='', sha256=''))}".encode()


def command_for(out: Path, job: StoredJob | None) -> str:
    """The command of a data set that may have been moved or copied: its OUT is `out`.

    Empty if this user has not typed it: what somebody else has written there is no advice.
    """
    if job is None or not is_proven(_proven(job), job.proof):
        return ""
    command = job.command
    directory, words = _split(command)
    here = str(out.absolute())

    def place(name: str, value: str) -> str:
        there = os.path.realpath(Path(directory, value))
        return value if name == "RAW" or there == os.path.realpath(here) else here

    found = _with_places(words, place)
    return command if found == words else _joined(directory, found)


def shown_command(command: str) -> str:
    """A stored command for others to read: without its directory, RAW and OUT for its places."""
    return printable(shlex.join(_with_places(_split(command)[1], lambda name, _: name)))


def made_by(out: Path) -> str:
    """The command that made a data set, as `shown_command`; empty if this user did not type it."""
    return shown_command(command_for(out, read_state(Workspace(out).job, StoredJob)))


def _split(command: str) -> tuple[str, list[str]]:
    """Its directory and its words; none if there is no command."""
    try:
        _, directory, _, *words = shlex.split(command)  # cd DIR &&
    except ValueError:  # or what is not printable was escaped
        return "", []
    return directory, words


def _with_places(words: Sequence[str], place: Callable[[str, str], str]) -> list[str]:
    """Words in which each place is what is made of its name, RAW or OUT, and its value."""
    found = [*words]
    for number, word in enumerate(words):
        option, equals, value = word.partition("=")
        name = _PLACES.get(option.replace("-", "_"))
        if name is not None and equals:
            found[number] = f"{option}={place(name, value)}"
        elif name is not None and number + 1 < len(words):
            found[number + 1] = place(name, words[number + 1])
    return found
