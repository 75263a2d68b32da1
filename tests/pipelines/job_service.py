"""Beam's own job service in pure Python, but with as many workers a job as its first word says.

As it is, one worker does all, whatever ``--direct_num_workers`` says. The runner in it does divide
elements among workers, if told to.
"""

from __future__ import annotations

import sys

from apache_beam.runners.portability import local_job_service, local_job_service_main
from apache_beam.runners.portability.fn_api_runner import fn_runner


class _Runner(fn_runner.FnApiRunner):  # type: ignore[misc]  # Beam ships no types for it
    def __init__(self, *words: object, **options: object) -> None:
        super().__init__(*words, **options)
        self._num_workers = int(sys.argv[1])


if __name__ == "__main__":
    local_job_service.fn_runner.FnApiRunner = _Runner
    local_job_service_main.run(sys.argv[2:])
