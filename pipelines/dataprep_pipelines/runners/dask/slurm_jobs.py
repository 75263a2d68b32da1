"""The Slurm jobs that are a run's Dask workers: submitted, looked after, cancelled."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from dataprep.errors import PipelineError
from dataprep.system.messages import counted

WORKER = "dataprep"
"""What the name of a worker begins with; the number of its job follows."""

_REFUSES = "Slurm refuses the worker jobs: "
_LOOK_SECONDS = 10.0  # between two questions to Slurm's controller, which serves a whole site
_COMMAND_SECONDS = 120
_ENDED = {"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY"}
_ENDED |= {"PREEMPTED", "REVOKED", "TIMEOUT"}
_GONE = "GONE"  # Slurm forgets jobs some minutes after their end
_REPLACED = {"TIMEOUT", "PREEMPTED"}  # ended by no fault of theirs; Slurm requeues after NODE_FAIL


class SlurmJobs:
    """The worker jobs of one run.

    A job whose time was over, or that had to make way, is replaced if it had brought a worker. Any
    other end is somebody's wish, or would come again: the run goes on with the jobs that are left.

    Args:
        name: of every job, and of no other job of this user.
        script: of every job.
        workers: the names of the workers that are there now.
        logs: a directory for what jobs say; None: the script has a place for that.
        report: told what happens to jobs.
    """

    def __init__(
        self,
        name: str,
        script: str,
        workers: Callable[[], Iterable[str]],
        logs: Path | None,
        report: Callable[[str], None],
    ) -> None:
        # By its name a job is found of which sbatch could not tell the number any more.
        self._ours = (f"--user={os.getuid()}", f"--name={name}")
        self._script = script
        self._workers = workers
        self._logs = logs
        self._report = report
        self._jobs: set[str] = set()
        self._served: set[str] = set()
        self._next_look = 0.0

    def submit(self, number: int) -> None:
        """Submit jobs.

        Raises:
            PipelineError: Slurm refuses all of them, or there is no Slurm.
        """
        refusals = []
        for _ in range(number):
            try:
                self._jobs.add(self._sbatch())
            except PipelineError as error:
                refusals.append(error)
        if refusals and not self._jobs:
            raise refusals[0]
        report = f"Slurm: {counted(number - len(refusals), 'worker job')} submitted"
        if refusals:
            report += f", {len(refusals)} refused: {str(refusals[0]).removeprefix(_REFUSES)}"
        self._report(report)

    def attend(self) -> bool:
        """Notice jobs that have ended, and replace those whose time was over.

        Returns:
            Whether Slurm has jobs that may still bring their workers.

        Raises:
            PipelineError: it has none, and no worker is there.
        """
        present = {name.split("-")[1] for name in self._workers() if name.startswith(f"{WORKER}-")}
        self._served |= present
        if self._jobs <= present:
            return False
        now = time.monotonic()
        if now < self._next_look:
            return True
        self._next_look = now + _LOOK_SECONDS
        states = self._states()
        if states is None:
            return False  # nobody knows
        now_in = {job: states.get(job, _GONE) for job in self._jobs}
        ended = {job: state for job, state in now_in.items() if state in _ENDED | {_GONE}}
        self._jobs -= ended.keys()
        for job, state in sorted(ended.items()):
            self._report(f"Slurm: the worker job {job} has ended: {state}")
        again = [job for job in ended if job in self._served and ended[job] in _REPLACED]
        if again:
            self.submit(len(again))
        if not self._jobs and not present:
            raise PipelineError(
                f"no worker job is left in Slurm, nor one that waits{self._where()}; finished "
                "shards are kept: run the same command again to resume"
            )
        return bool(self._jobs - present)

    def cancel(self) -> None:
        """Cancel whatever is left."""
        _run(["scancel", "--quiet", *self._ours])

    def _sbatch(self) -> str:
        words = ["sbatch", "--parsable"]
        if self._logs is not None:
            self._logs.mkdir(exist_ok=True)
            words.append(f"--output={self._logs}/%j.log")
        done = _run(words, self._script)
        if done is None:
            raise PipelineError(
                "sbatch does not answer, or is not installed here; --dask_slurm is for hosts where "
                "Slurm jobs can be submitted"
            )
        if done.returncode != 0:
            raise PipelineError(_REFUSES + _refusal(done.stderr))
        return done.stdout.strip().split(";")[0]  # with several clusters, followed by its name

    def _states(self) -> dict[str, str] | None:
        """By job, those that ended lately too; None if Slurm does not answer."""
        done = _run(["squeue", "--noheader", "--states=all", *self._ours, "--format=%A %T"])
        if done is None or done.returncode != 0:
            return None
        return dict(line.split() for line in done.stdout.splitlines() if len(line.split()) == 2)

    def _where(self) -> str:
        return "" if self._logs is None else f"; what they said is in {self._logs}"


def _run(words: Sequence[str], text: str = "") -> subprocess.CompletedProcess[str] | None:
    try:
        return subprocess.run(  # noqa: S603  # no shell, and Slurm's own programs
            words,
            input=text,
            capture_output=True,
            text=True,
            timeout=_COMMAND_SECONDS,
            start_new_session=True,  # Ctrl-C is for the launcher alone
        )
    except (OSError, subprocess.TimeoutExpired):
        return None


def _refusal(said: str) -> str:
    """What sbatch says, in one line, without what a site prints besides."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line.split("error: ", 1)[1] for line in lines if "error: " in line]
    return "; ".join(errors or lines[-1:]) or "sbatch does not say why"
