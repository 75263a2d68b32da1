"""Options of ``dataprep stage`` that do not go together: refused, since ignoring one misleads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dataprep.errors import UsageError

if TYPE_CHECKING:
    from dataprep.staging.nodes.placement import Placement

_BELONGING = {"nodes": "advise", "speed": "advise", "all_jobs": "clean"}

# What each mode does instead of copying, and the options that would say nothing then. Those that
# say what is copied and how may stay: the command that staged, with --clean behind it, cleans.
_MODES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "warm": (
        "reads SRC where it is",
        ("to", "shared", "print_dir", "env_file", "hash", "broadcast", "rendezvous"),
    ),
    "advise": ("copies nothing", ("print_dir", "env_file")),
    "status": ("copies nothing", ("print_dir", "env_file")),
    "clean": ("copies nothing", ("print_dir", "env_file")),
}


def check_options(options: Mapping[str, Any]) -> str | None:
    """Refuse options that contradict each other, or of which one would be ignored.

    Args:
        options: by name, as the command line has them.

    Returns:
        The mode: ``warm``, ``advise``, ``status``, ``clean``; None to copy.

    Raises:
        UsageError: two do not go together.
    """
    chosen = [name for name in _MODES if options[name]]
    if len(chosen) > 1:
        raise UsageError(f"--{chosen[0]} and --{chosen[1]} are two different things; give one")
    mode = chosen[0] if chosen else None
    for name, owner in _BELONGING.items():
        if options[name] and mode != owner:
            raise UsageError(f"--{name} belongs to --{owner}; leave it out")
    if mode is not None:
        instead, needless = _MODES[mode]
        for name in needless:
            if options[name]:
                raise UsageError(f"--{mode} {instead}: --{name} does not go with it; leave it out")
    if not options["share"] and (options["replicas"] != 1 or options["whole"]):
        raise UsageError("--replicas and --whole belong to --share node")
    if options["share"] and options["broadcast"]:
        raise UsageError("--broadcast sends everything to every node; leave out --share")
    if options["verify"] == "none" and options["hash"]:
        raise UsageError("--verify none compares sizes only, --hash hashes every file; give one")
    return mode


def check_rendezvous(address: str | None, placement: Placement) -> None:
    """Refuse a meeting place where nothing is known of anybody to meet.

    Args:
        address: ``--rendezvous``.
        placement: where this process stands.

    Raises:
        UsageError: no scheduler or launcher tells of nodes, and the user does not either.
    """
    if address not in (None, "none") and placement.origin == "nothing":
        raise UsageError(
            f"--rendezvous {address}: no scheduler or MPI tells of other nodes here; say which "
            "node this is, and of how many, with --rank and --world_size"
        )
