"""What is installed and found here: ``dataprep doctor`` and ``dataprep sinks``."""

from __future__ import annotations

import os
import platform
import resource
import shutil
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

import click

from dataprep.cli.options import flag
from dataprep.cli.output import say, show
from dataprep.errors import DataprepError
from dataprep.plugins import OUR_PACKAGE
from dataprep.staging.placement import find_job, find_placement
from dataprep.system.filesystems import (
    Scratch,
    filesystem_of,
    is_network,
    scratch_conventions,
    space_of,
)
from dataprep.system.job_limits import available_memory, group_cores, group_memory, usable_cores
from dataprep.system.lustre import LUSTRE
from dataprep.system.messages import sized, some_of
from dataprep.system.site import PLACE, VARIABLE, site, site_file
from dataprep.version import __version__

_ENDLESS = 1 << 60  # the kernel has several numbers for no limit
_LITTLE = 10**9  # bytes
_FILES = 1024  # open at once: what systems give by default
_LIMITS = ("AS", "DATA", "FSIZE", "NOFILE", "NPROC")
# Those that no job needs, what they bound, and ulimit's letter for it.
_BOUNDED = {
    "AS": ("address space, by which libraries fail oddly,", "v"),
    "DATA": ("memory for data, by which libraries fail oddly,", "d"),
    "FSIZE": ("the size of a file", "f"),
}


@dataclass(frozen=True, slots=True)
class Place:
    """A directory.

    Attributes:
        name: the path, and what names it.
        path: of the directory.
        filesystem: the type; empty if it cannot be told.
        free: bytes; None if it is not there, or not for this user.
        own: whether this user may write there, and no other machine can.
    """

    name: str
    path: Path
    filesystem: str
    free: int | None
    own: bool


@dataclass(frozen=True, slots=True)
class Machine:
    """What is here.

    Attributes:
        versions: of dataprep, Python and the system, in words.
        packages: the version of each that is required; None: it is not there.
        site_file: the file with the site's defaults; None: there is none.
        site: the defaults that it sets.
        storage: of the directories that were named, the current one, and this node's scratch.
        scheduler: the job and this node's place in it, in words.
        cores: how many may be used, in words.
        memory: how many bytes are left, in words.
        limits: soft and hard, as ``getrlimit`` has them.
        umask: in octal.
        problems: a line for each thing to be mended; empty if nothing is wrong.
    """

    versions: str
    packages: Mapping[str, str | None]
    site_file: Path | None
    site: Mapping[str, object]
    storage: Sequence[Place]
    scheduler: str
    cores: str
    memory: str
    limits: Mapping[str, tuple[int, int]]
    umask: str
    problems: Sequence[str]

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield self.versions
        named = (f"{name} {found or 'missing'}" for name, found in self.packages.items())
        yield f"packages: {', '.join(named)}"
        values = ", ".join(f"{name} = {value!r}" for name, value in self.site.items())
        where = self.site_file or f"none; {PLACE} is not there, or ${VARIABLE} is empty"
        yield f"defaults of the site: {where}{': ' * bool(values)}{values}"
        for place in self.storage:
            free = "not there, or not for this user"
            if place.free is not None:
                free = f"{sized(place.free)} free"
            yield f"storage: {place.name}: {place.filesystem or 'unknown'}, {free}"
        yield f"scheduler: {self.scheduler}"
        yield f"cores: {self.cores}"
        yield f"bytes of memory: {self.memory}"
        for name, (soft, hard) in self.limits.items():
            yield f"RLIMIT_{name}: {_bound(soft)}, at most {_bound(hard)}"
        yield f"umask: {self.umask}"
        yield from (f"wrong: {line}" for line in self.problems)
        if not self.problems:
            yield "nothing wrong was found"


@click.command(params=[flag("json", "Print it as JSON; problems has what is wrong.")])
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=click.Path(path_type=Path))
def doctor_command(paths: Sequence[Path], json: bool) -> None:
    """Say what is wrong with this machine, and print what a report of a problem needs.

    That is versions, the site's defaults, storage, scheduler and limits. PATH is a directory that
    matters, besides the current one and this node's scratch. Of the environment nothing is told
    but the job's name and hosts, and where scratch is.
    """
    show(_look(paths), json=json)


def _look(paths: Sequence[Path]) -> Machine:
    problems: list[str] = []
    try:
        scheduler = _scheduler()
    except DataprepError as error:
        problems.append(scheduler := str(error))
    values: dict[str, object] = {}
    scratch: list[Scratch] = []
    cores = os.cpu_count() or 1
    try:
        if here := site():
            named = {name: getattr(here, name) for name in here.__struct_fields__}
            values = {name: value for name, value in named.items() if value not in (None, ())}
        scratch, cores = scratch_conventions(), usable_cores()
    except DataprepError as error:
        problems.append(str(error))
    packages, unfit = _packages()
    asked = [_place(str(path), path) for path in (*paths, Path.cwd())]
    local = [_place(f"{each.path}, scratch by {each.why}", each.path) for each in scratch]
    memory = available_memory()
    limits = {name: resource.getrlimit(getattr(resource, f"RLIMIT_{name}")) for name in _LIMITS}
    os.umask(umask := os.umask(0))
    return Machine(
        f"dataprep {__version__}, Python {platform.python_version()}, {platform.platform()}",
        packages,
        site_file(),
        values,
        [*asked, *local],
        scheduler,
        f"{cores} of {os.cpu_count()}, control group {_bound(group_cores())}",
        f"{memory:,} left, control group {_bound(group_memory())}",
        limits,
        f"{umask:04o}",
        [*problems, *unfit, *_of_storage(asked, scratch, local), *_of_limits(limits, memory)],
    )


def _scheduler() -> str:
    job, here = find_job(os.environ), find_placement()
    name = f"{job.name} on {some_of(job.hosts) or 'unnamed hosts'}" if job else "none"
    which = here.doubt or f"node {here.node} of {here.nodes}, known from {here.origin}"
    return f"{name}; this is {here.host}, {which}"


def _packages() -> tuple[dict[str, str | None], list[str]]:
    """The versions of what this program names, and what is wrong with them."""
    from packaging.requirements import Requirement

    packages: dict[str, str | None] = {}
    unfit = []
    for one in map(Requirement, requires(OUR_PACKAGE) or ()):
        try:
            packages[one.name] = found = version(one.name)
        except PackageNotFoundError:
            packages[one.name] = found = None
        needed = one.marker is None or one.marker.evaluate({"extra": ""})
        if (found is None and needed) or (found and not one.specifier.contains(found, True)):
            unfit.append(
                f"{one.name} is {found or 'missing'}: pip install '{one.name}{one.specifier}'"
            )
    return dict(sorted(packages.items())), unfit


def _place(name: str, path: Path) -> Place:
    kind = filesystem_of(path)
    try:
        free = space_of(path).free
    except DataprepError:
        return Place(name, path, kind, None, own=False)
    return Place(name, path, kind, free, own=os.access(path, os.W_OK) and not is_network(kind))


def _of_storage(
    asked: Sequence[Place], scratch: Sequence[Scratch], local: Sequence[Place]
) -> Iterator[str]:
    for place in asked:
        if place.free is None:
            yield f"{place.path} is not there, or not for this user: check the path"
        elif place.free < _LITTLE:
            yield f"{place.path} has {sized(place.free)} free: make room"
    if any(place.filesystem == LUSTRE for place in asked) and shutil.which("lfs") is None:
        yield "lfs is not on PATH, so layouts cannot be set: docs/lustre.md"
    for promise, place in zip(scratch, local, strict=True):
        if promise.promised and not place.own:
            yield (
                f"{promise.why} names {place.path}, where this user cannot write, or which nodes "
                "share: unset it, or name storage of this node's own"
            )
    if scratch and not any(place.own for place in local):
        yield (
            "no directory on this node's own storage can be written to: name one in "
            f"$DATAPREP_SCRATCH, or for all as scratch in {PLACE}"
        )


def _of_limits(limits: Mapping[str, tuple[int, int]], memory: int) -> Iterator[str]:
    if memory < _LITTLE:
        yield f"{sized(memory)} of memory are left: end something, or ask the scheduler for more"
    if 0 <= limits["NOFILE"][0] < _FILES:
        yield f"only {limits['NOFILE'][0]} files may be open at once: ulimit -n {_FILES}"
    for name, (what, option) in _BOUNDED.items():
        if 0 <= limits[name][0] < _ENDLESS:
            yield f"{what} is bounded to {sized(limits[name][0])}: ulimit -{option} unlimited"


def _bound(value: int | None) -> str:
    return "unlimited" if value is None or not 0 <= value < _ENDLESS else f"{value:,}"


_MANY = 1024  # the training shards of formats that are read in any number


@click.command()
def sinks_command() -> None:
    """List the installed formats, with their files and options.

    A package adds one with an entry point in the group dataprep.sinks.
    """
    from dataprep.plugins import OUR_PACKAGE, SINKS, installed, package_of

    for name, point in installed(SINKS).items():
        package = package_of(point)
        origin = "" if package in ("", OUR_PACKAGE) else f" (from {package})"
        for number, line in enumerate(_lines(name, origin)):
            indent = "  " if number else ""
            wrapped = textwrap.fill(
                line,
                80,
                initial_indent=indent,
                subsequent_indent=f"{indent}    ",
                break_long_words=False,
                break_on_hyphens=False,
            )
            say(*wrapped.split("\n"))


def _lines(name: str, origin: str) -> Iterator[str]:
    from dataprep.formats import ShardName
    from dataprep.plugins import load_sink

    try:
        sink = load_sink(name)
    except DataprepError as error:
        yield f"{name}{origin}: cannot be used: {error}"
        return
    yield f"{name}{origin}: {sink.summary}"
    shard = ShardName("train", 0, sink.usual_shards or _MANY)
    files = [*sink.paths(shard, "split"), *sink.split_paths(shard.split, shard.count, "split")]
    yield f"files: {', '.join(map(str, files))}"
    for option, choices in sink.OPTIONS.items():
        if len(choices) > 1:
            yield f"--sink_option {option}={'|'.join(choices)} [default: {choices[0]}]"
    yield f"verify --level reader: {sink.reference or 'none'}"
