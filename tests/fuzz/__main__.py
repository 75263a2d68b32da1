"""``python -m tests.fuzz``: fuzz, or replay what was found; ``make fuzz`` takes an hour of it."""

# ruff: noqa: E402, T201 - threads of numpy's would be forked; it prints what it finds

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from random import SystemRandom

from dataprep.system.job_limits import one_thread_each

one_thread_each(os.environ)

from tests.fuzz.runner import Finding, Input, Target, made_apart, run
from tests.fuzz.targets import TARGETS, kept

_FINDINGS = Path("fuzz-findings")


def main(words: Sequence[str] | None = None) -> int:
    """Do what the command line says; 1 if anything was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("targets", nargs="*", help=f"all by default: {', '.join(TARGETS)}")
    parser.add_argument("--seed", type=int, help="random by default; it is printed")
    parser.add_argument("--file", type=Path, help="run this input alone")
    parser.add_argument("--corpus", action="store_true", help="run what is kept, nothing else")
    parser.add_argument("--seconds", type=float, help="for each target, instead of its count")
    parser.add_argument("--hour", action="store_true", help="an hour in all, on all processors")
    args = parser.parse_args(words)
    names = args.targets or [*TARGETS]
    args.seed = SystemRandom().randrange(1 << 32) if args.seed is None else args.seed
    if args.hour:
        return _for_an_hour(names, args.seed)
    findings = [finding for name in names for finding in _fuzz(TARGETS[name], args)]
    return int(bool(findings))


def _for_an_hour(names: list[str], seed: int) -> int:
    count = len(os.sched_getaffinity(0))
    words = [sys.executable, "-m", "tests.fuzz", f"--seed={seed}"]
    words.append(f"--seconds={3600 * count / len(names):.0f}")
    started = [subprocess.Popen([*words, *names[at::count]]) for at in range(count)]
    return max([process.wait() for process in started])


def _fuzz(target: Target, args: argparse.Namespace) -> list[Finding]:
    cases = made_apart(partial(kept, target.name))
    if args.corpus and not cases:
        return []
    seeds = made_apart(target.seeds)
    count: int | None = target.count
    deadline = float("inf")

    def make(number: int) -> tuple[str, bytes]:
        data = target.input([*seeds, *(data for _, data in cases)], args.seed, number)
        return f"--seed {args.seed}, input {number}", data

    given: Input = make
    if args.file or args.corpus:
        inputs: list[tuple[str, bytes]] = (
            [(str(args.file), args.file.read_bytes())] if args.file else cases
        )
        given, count = inputs.__getitem__, len(inputs)
    elif args.seconds:
        count, deadline = None, time.monotonic() + args.seconds
    ran, findings, deaths = run(target, given, seeds[0], count, deadline)
    died = f", {deaths} ended their process" if target.isolated else ""
    print(f"{target.name}: {ran} inputs, {len(findings)} findings{died}", flush=True)
    # One of each kind, which is where it happened.
    kinds = {tuple(finding.what.splitlines()[-3:]): finding for finding in findings[::-1]}
    for number, finding in enumerate(kinds.values()):
        path = _FINDINGS / f"{target.name}-{args.seed}-{number}".replace(" ", "-")
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(finding.data)
        again = f"python -m tests.fuzz '{target.name}' --file {path}"
        print(f"FOUND {finding.name}: {finding.what}\nagain: {again}\n", flush=True)
    return findings


if __name__ == "__main__":
    sys.exit(main())
