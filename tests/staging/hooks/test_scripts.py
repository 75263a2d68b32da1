"""The scripts are run, with a launcher and a `dataprep` that only do as if."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from dataprep.staging.hooks.render import SCHEDULERS, Hook, render

# Runs the command twice, as two nodes; options of the launcher are not the command's.
_LAUNCHER = """#!/bin/bash
case $1 in --version) echo "mpiexec (OpenRTE) 4.1.4"; exit ;; esac
while true; do
  case $1 in
    --map-by|--bind-to|-n|-z) shift 2 ;;
    -*) shift ;;
    *) break ;;
  esac
done
# What arrives before all tasks are there is passed on when they are, as real launchers do.
told=()
pass_on() {
  if [ "${ready:-}" ]; then
    for signal in "${told[@]}"; do kill "-$signal" -- "${tasks[@]/#/-}"; done
    told=()
  fi
}
trap 'told+=(USR1); pass_on' USR1
trap 'told+=(USR2); pass_on' USR2
tasks=()
for node in 0 1; do
  NODE=$node setsid "$@" &
  tasks+=("$!")
done
for task in "${tasks[@]}"; do
  until kill -0 -- "-$task" 2>/dev/null || ! kill -0 "$task" 2>/dev/null; do sleep 0.01; done
done
ready=yes
pass_on
code=0
for task in "${tasks[@]}"; do
  wait "$task" || code=$?
  while kill -0 "$task" 2>/dev/null; do code=0; wait "$task" || code=$?; done
done
exit "$code"
"""

_DATAPREP = """#!/bin/bash
echo "$NODE $*" >>"$LOG"
case "$*" in *--clean) exit ;; esac
case $BEHAVIOUR in
  well) echo "a line on stderr" >&2; printf '%s\\n' "$DIRECTORY" ;;
  apart) printf '%s\\n' "$DIRECTORY/$NODE" ;;
  full) exit 4 ;;
  *) exit 1 ;;
esac
"""

Run = Callable[..., subprocess.Popen[str]]


class Site:
    """A made-up site: its launcher, its `dataprep`, what a job finds in its environment."""

    def __init__(self, root: Path) -> None:
        self.log = root / "log"
        self.log.touch()
        self.directory = root / "a copy's place"
        self.directory.mkdir()
        (self.directory / "train-00000").touch()
        programs = root / "bin"
        programs.mkdir()
        for name in ("srun", "mpiexec", "blaunch"):
            self._program(programs / name, _LAUNCHER)
        self._program(programs / "dataprep", _DATAPREP)
        hosts = root / "hosts"
        hosts.write_text("n0\nn0\nn1\n")
        self.environment = {
            "PATH": f"{programs}:/usr/bin:/bin",
            "SLURM_JOB_NUM_NODES": "2",
            "PBS_O_WORKDIR": str(root),
            "PBS_NODEFILE": str(hosts),
            "LSB_DJOB_HOSTFILE": str(hosts),
            "LOG": str(self.log),
            "DIRECTORY": str(self.directory),
        }

    @staticmethod
    def _program(path: Path, text: str) -> None:
        path.write_text(text)
        path.chmod(0o755)

    def start(self, script: str, behaviour: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["bash", "-c", script],
            env={**self.environment, "BEHAVIOUR": behaviour},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, script: str, behaviour: str) -> tuple[int, str, str]:
        with self.start(script, behaviour) as process:
            out, err = process.communicate(timeout=30)
        return process.returncode, out, err

    def cleaned(self) -> list[str]:
        """The nodes that were cleaned."""
        lines = self.log.read_text().splitlines()
        return sorted(line.split()[0] for line in lines if line.endswith(" --clean"))


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def script(scheduler: str, **options: object) -> str:
    return render(scheduler, Hook(Path("/lustre/it's here"), nodes=2, **options))  # type: ignore[arg-type]


@pytest.mark.parametrize("keep", [False, True], ids=["clean", "keep"])
@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_all_nodes_are_staged_then_trained_on_then_cleaned(
    site: Site, scheduler: str, keep: bool
) -> None:
    code, out, err = site.run(script(scheduler, keep=keep), "well")
    assert (code, out) == (0, "train-00000\n" * 2), err
    staged = "stage /lustre/it's here"
    lines = site.log.read_text().splitlines()
    assert sorted(lines[:2]) == [f"{node} {staged} --print_dir" for node in (0, 1)]
    assert sorted(lines[2:]) == [f"{node} {staged} --clean" for node in (0, 1)]


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize(
    ("behaviour", "code", "told"),
    [
        ("full", 4, "too little room"),
        ("broken", 1, ""),
        ("apart", 1, "do not agree where their copies are"),
    ],
)
def test_without_good_copies_there_is_no_training(
    site: Site, scheduler: str, behaviour: str, code: int, told: str
) -> None:
    found, out, err = site.run(script(scheduler), behaviour)
    assert (found, out) == (code, ""), err
    assert told in err
    assert site.cleaned() == ["0", "1"]


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_the_exit_code_of_the_training_is_the_job_s(site: Site, scheduler: str) -> None:
    text = script(scheduler).replace('ls "$DATA_DIR" &', "bash -c 'exit 200' &")
    code, _, err = site.run(text, "well")
    assert code == 200, err
    assert site.cleaned() == ["0", "1"]


def test_a_program_that_is_not_there_is_named(site: Site) -> None:
    (site.directory.parent / "bin" / "dataprep").unlink()
    code, _, err = site.run(script("slurm"), "well")
    assert code == 127
    assert "not on the PATH" in err


def test_what_node_room_lacks_can_come_from_the_source(site: Site) -> None:
    lines = script("slurm").splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("    # DATA_DIR="))
    source = lines[at].removeprefix("    # ")
    lines[at : at + 3] = [source, ":"]
    text = "\n".join(lines).replace('srun ls "$DATA_DIR"', 'echo "$DATA_DIR"')
    code, out, err = site.run(text, "full")
    assert (code, out) == (0, "/lustre/it's here\n"), err


# Says that it has begun; told USR1, it goes on to an end of its own.
_TRAINING = """bash -c 'trap "told=1" USR1; echo begun; for i in {1..3000}; do
  if [ "${told:-}" ]; then sleep 0.3; exit 7; fi; sleep 0.01; done' &"""


@pytest.mark.parametrize("keep", [False, True], ids=["clean", "keep"])
def test_slurm_s_warning_reaches_the_training_and_is_no_end(site: Site, keep: bool) -> None:
    text = script("slurm", keep=keep).replace('srun ls "$DATA_DIR" &', _TRAINING)
    assert _TRAINING in text
    with site.start(text, "well") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGUSR1)
        time.sleep(0.1)
        process.send_signal(signal.SIGUSR1)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 7, err
    assert site.cleaned() == ["0", "1"]


@pytest.mark.parametrize(
    ("scheduler", "number"),
    [
        ("pbs", signal.SIGTERM),
        ("lsf", signal.SIGTERM),
        ("lsf", signal.SIGINT),
        ("lsf", signal.SIGUSR2),
    ],
    ids=["pbs-TERM", "lsf-TERM", "lsf-INT", "lsf-USR2"],
)
@pytest.mark.parametrize("keep", [False, True], ids=["clean", "keep"])
def test_a_job_that_is_stopped_cleans_unless_it_shall_keep(
    site: Site, scheduler: str, number: int, keep: bool
) -> None:
    text = script(scheduler, keep=keep)
    training = "bash -c 'echo begun; exec sleep 30' &"
    text = text.replace('"${every_node[@]}" ls "$DATA_DIR" &', training)
    assert training in text
    with site.start(text, "well") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        os.kill(process.pid, number)
        _, err = process.communicate(timeout=20)
    assert process.returncode == 143, err
    assert site.cleaned() == ([] if keep else ["0", "1"])
