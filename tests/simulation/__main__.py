"""Many schedules on all cores, `make simulate`; or one with its trace, ``--seed NUMBER``."""

from __future__ import annotations

import argparse
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor

from tests.simulation.scenario import Schedule, again, simulated, sweep

_CHUNK = 500


def _chunk(first: int) -> dict[int, list[str]]:
    return sweep(range(first, first + _CHUNK))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("schedules", type=int, nargs="?", default=1_000_000)
    parser.add_argument("--seed", type=int)
    arguments = parser.parse_args()
    if arguments.seed is not None:
        with simulated():
            schedule = Schedule(arguments.seed, trace=True)
            problems = schedule.run()
        sys.stdout.write("\n".join([*schedule.trace(), *problems, ""]))
        return bool(problems)
    os.nice(19)
    begun, done, bad = time.monotonic(), 0, dict[int, list[str]]()
    with ProcessPoolExecutor() as pool:
        for found in pool.map(_chunk, range(0, arguments.schedules, _CHUNK)):
            done += _CHUNK
            bad |= found
            for seed, problems in found.items():
                sys.stdout.write(f"{'; '.join(problems)}; {again(seed)}\n")
            if done % (20 * _CHUNK) == 0:
                passed = time.monotonic() - begun
                sys.stdout.write(f"{done:,} schedules, {len(bad)} bad, {passed:.0f} s\n")
                sys.stdout.flush()
    sys.stdout.write(f"in all {done:,} schedules, {len(bad)} bad\n")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
