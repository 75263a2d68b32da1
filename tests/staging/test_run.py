"""``dataprep stage SRC -- COMMAND`` without Slurm, which has tests of its own."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dataprep.api.progress import Reporter
from dataprep.errors import StagingError
from dataprep.staging.cleaning import clean
from dataprep.staging.handshake import SECRET
from dataprep.staging.request import StageReporter, StageRequest
from dataprep.staging.run import _Signals, run_on_copy
from dataprep.staging.stage import stage
from tests.conftest import everyday
from tests.staging.conftest import _SPOKEN

# Runs the command twice, as two nodes, each of which has a scratch of its own at one place: what
# real launchers do, down to handing on TERM. Options of the launcher are not the command's.
_LAUNCHER = """#!/usr/bin/env python3
import os, signal, subprocess, sys
words = sys.argv[1:]
if words == ["--version"]:
    print("mpiexec (OpenRTE) 4.1.4")
    sys.exit()
while words[0].startswith("-"):
    del words[: 2 if words[0] in ("--map-by", "--bind-to", "-n", "-x", "-z") else 1]
tasks = []
for node in "01":
    mount = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'
    private = ["unshare", "--mount", "--map-root-user", "sh", "-c", mount, "sh"]
    place = f"{os.environ['SITE']}/node{node}"
    os.makedirs(place, exist_ok=True)
    words_of_it = [*private, place, os.environ["DATAPREP_SCRATCH"], *words]
    tasks.append(subprocess.Popen(words_of_it, env={**os.environ, "HOSTNAME": f"n{node}"}))
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2):
    signal.signal(number, lambda number, _: [task.send_signal(number) for task in tasks])
sys.exit(max(task.wait() for task in tasks) & 255)
"""


class Job:
    """A job's first node, with two nodes and a launcher."""

    def __init__(self, root: Path, scheduler: str) -> None:
        self.root = root
        for name in ("bin", "scratch", "site"):
            (root / name).mkdir()
        for name in ("mpiexec", "blaunch"):
            (root / "bin" / name).write_text(_LAUNCHER)
            (root / "bin" / name).chmod(0o755)
        (root / "hosts").write_text("n0\nn0\nn1\n")
        spoken = {
            "none": {},
            "pbs": {"PBS_JOBID": "7.server", "PBS_NODEFILE": str(root / "hosts")},
            "lsf": {"LSB_JOBID": "7", "LSB_DJOB_HOSTFILE": str(root / "hosts")},
        }
        own = {name: text for name, text in os.environ.items() if not _SPOKEN.fullmatch(name)}
        self.environment = {
            **own,
            **spoken[scheduler],
            "PATH": f"{root / 'bin'}:{os.environ['PATH']}",
            "DATAPREP_SCRATCH": str(root / "scratch"),
            "SITE": str(root / "site"),
        }
        self.process: subprocess.Popen[str] | None = None

    def start(self, *words: object) -> subprocess.Popen[str]:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "dataprep", "stage", *map(str, words)],
            env=self.environment,
            cwd=self.root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        return self.process

    def run(self, *words: object) -> tuple[int, str, str]:
        process = self.start(*words)
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    def left(self) -> list[str]:
        """What is still staged, on any node."""
        return sorted(path.name for path in self.root.glob("s*/**/dataprep-*/*/*") if path.is_dir())


LSF = pytest.param("lsf", marks=pytest.mark.thorough)


@pytest.fixture(params=["none", "pbs", LSF])
def job(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Job]:
    private = ["unshare", "--mount", "--map-root-user", "true"]
    if request.param != "none" and subprocess.run(private, check=False).returncode:
        pytest.skip("this machine allows no user namespaces")
    made = Job(tmp_path, request.param)
    yield made
    if made.process is not None and made.process.poll() is None:
        made.process.kill()


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    path = tmp_path / "it's the source"
    path.mkdir()
    (path / "data").write_bytes(b"12345")
    return path


def test_the_command_runs_once_on_a_copy_that_is_gone_afterwards(job: Job, plain: Path) -> None:
    look = 'echo "$DATA_DIR $HDF5_USE_FILE_LOCKING" "$@"; ls "$SITE" "$DATAPREP_SCRATCH"; exit 7'
    words = ("sh", "-c", look, "its own:", "--clean", "--", "-x")
    code, out, err = job.run(plain, "--rendezvous", "none", "--", *words)
    assert code == 7, err
    assert out.startswith(f"{job.root}/scratch/dataprep-"), out
    assert out.count("FALSE --clean -- -x\n") == 1
    assert job.left() == []
    assert err.count("removed 1 file, 5 bytes") + out.count("removed 1 file, 5 bytes") == (
        2 if "PBS_JOBID" in job.environment or "LSB_JOBID" in job.environment else 1
    )


@pytest.mark.parametrize("job", ["pbs"], indirect=True)
def test_the_copies_share_a_secret_that_the_command_does_not_know(job: Job, plain: Path) -> None:
    launcher = job.root / "bin" / "mpiexec"
    spy = f'[ "$1" = --version ] || echo "$SECRET $@" >>"{job.root}/seen"'.replace("SECRET", SECRET)
    launcher.rename(launcher.with_name("real"))
    launcher.write_text(f'#!/bin/sh\n{spy}\nexec "$(dirname "$0")/real" "$@"\n')
    launcher.chmod(0o755)
    code, out, err = job.run(plain, "--rendezvous", "none", "--", "sh", "-c", f"echo ${SECRET}:")
    assert (code, out.count(":\n")) == (0, 1), err
    seen = (job.root / "seen").read_text().splitlines()
    assert len(seen) == 2
    assert all(f"-x {SECRET} " in line for line in seen)
    assert len({line.split()[0] for line in seen}) == 1
    assert len(seen[0].split()[0]) == 64


@pytest.mark.parametrize("job", everyday(["none"], ["pbs"]), indirect=True)
def test_a_copy_that_cannot_be_made_means_no_command(job: Job, plain: Path) -> None:
    (plain / "pipe").symlink_to("nowhere")
    code, out, err = job.run(plain, "--rendezvous", "none", "--", "echo", "training")
    assert code == 1, err
    assert "training" not in out
    assert "pipe cannot be staged: No such file" in err
    assert job.left() == []


def test_a_copy_that_was_moved_away_before_the_command_means_no_command(
    plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outside: None
) -> None:
    def staged(request: StageRequest, reporter: StageReporter) -> Path:
        place = stage(request, reporter)
        return place.rename(tmp_path / "away")

    monkeypatch.setattr("dataprep.staging.run.stage", staged)
    request = StageRequest(plain, tmp_path / "to")
    reporter = Reporter(lambda _: None)
    with pytest.raises(StagingError, match=rf"{tmp_path}/to was removed or replaced"):
        run_on_copy(request, ["touch", str(tmp_path / "trained")], [], reporter, keep=False)
    assert not (tmp_path / "trained").exists()


@pytest.mark.parametrize("job", ["pbs"], indirect=True)
@pytest.mark.parametrize("moved", everyday([True], [False]))
def test_the_job_s_first_node_looks_again_before_the_command(
    job: Job, plain: Path, moved: bool
) -> None:
    launcher, to = job.root / "bin" / "mpiexec", job.root / "to"
    move = f'mv "{to}" "{to}.away" 2>/dev/null' if moved else ":"
    launcher.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && exit\nshift 4\n'
        f'case "$*" in *--clean*) exec "$@";; esac\n"$@" && {move}\n'
    )
    (job.root / "hosts").write_text(f"{socket.gethostname()}\n")
    code, out, err = job.run(plain, "--to", to, "--", "echo", "training")
    assert (code, "training" in out) == ((1, False) if moved else (0, True)), err
    assert (f"{to} was removed, replaced or changed" in err) == moved


@pytest.mark.parametrize("job", ["none"], indirect=True)
def test_a_program_that_is_not_there_is_named_before_anything_is_copied(
    job: Job, plain: Path
) -> None:
    code, out, err = job.run(plain, "--", "no such program")
    assert (code, out) == (2, "")
    assert err == "dataprep: error: there is no program no such program to run; check the PATH\n"


@pytest.mark.parametrize(
    ("job", "number", "keep"),
    [
        ("none", signal.SIGINT, False),
        ("none", signal.SIGTERM, True),
        pytest.param("pbs", signal.SIGTERM, True, marks=pytest.mark.thorough),
        pytest.param("lsf", signal.SIGUSR2, False, marks=pytest.mark.thorough),
    ],
    indirect=["job"],
)
def test_a_stopped_job_cleans_unless_it_shall_keep(
    job: Job, plain: Path, number: signal.Signals, keep: bool
) -> None:
    options = ["--keep"] if keep else []
    # Python hears a signal that comes right before it sleeps when it has slept.
    training = "import time; print('begun', flush=True)\nwhile True: time.sleep(0.05)"
    words = [*options, "--rendezvous", "none", "--", sys.executable, "-c", training]
    process = job.start(plain, *words)
    assert process.stdout is not None
    assert "begun\n" in iter(process.stdout.readline, "")
    process.send_signal(number)
    _, err = process.communicate(timeout=30)
    # Python answers Ctrl-C with an exception, which it reports by dying of the signal.
    assert process.returncode == 128 + number, err
    assert bool(job.left()) == keep


@pytest.mark.parametrize(
    "job", ["none", pytest.param("pbs", marks=pytest.mark.thorough)], indirect=True
)
def test_a_warning_is_the_command_s_and_no_end(job: Job, plain: Path) -> None:
    training = """trap 'told=yes' USR1; echo begun
      until [ "${told:-}" ]; do sleep 0.05; done; ls "$DATA_DIR" >/dev/null; exit 3"""
    process = job.start(plain, "--keep", "--rendezvous", "none", "--", "sh", "-c", training)
    assert process.stdout is not None
    assert "begun\n" in iter(process.stdout.readline, "")
    process.send_signal(signal.SIGUSR1)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 3, err
    assert job.left() == []


def test_a_warning_that_interrupts_nothing_is_heard_too() -> None:
    """As one is that comes right before the call that waits for the command."""
    training = "trap 'exit 3' USR1; for i in $(seq 400); do sleep 0.05; done"

    def warn() -> None:
        time.sleep(0.5)
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)

    warning = threading.Thread(target=warn)
    warning.start()
    with _Signals() as signals:
        assert signals.run(["sh", "-c", training], os.environ) == (3, "")
    warning.join()
    assert signals.stopped is None


@pytest.mark.parametrize(
    ("job", "number", "keep"),
    [
        ("none", signal.SIGTERM, False),
        pytest.param("lsf", signal.SIGTERM, False, marks=pytest.mark.thorough),
        pytest.param("none", signal.SIGUSR1, True, marks=pytest.mark.thorough),
        ("pbs", signal.SIGUSR1, True),  # the warning is not the launcher's
    ],
    indirect=["job"],
)
def test_a_signal_while_staging_ends_it_before_the_command(
    job: Job, plain: Path, number: signal.Signals, keep: bool
) -> None:
    (plain / "data").write_bytes(bytes(range(256)) * 40_000)
    words = [*(["--keep"] if keep else []), "--rendezvous", "none", "--bandwidth", "1MB"]
    process = job.start(plain, *words, "--", "echo", "training")
    end = time.monotonic() + 30
    while not list(job.root.glob("s*/**/*.partial")):
        assert time.monotonic() < end
        time.sleep(0.05)
    process.send_signal(number)
    out, err = process.communicate(timeout=40)
    assert process.returncode == 128 + number, err
    assert "training" not in out
    assert f"stopped by {number.name} before the command ran" in err
    assert bool(job.left()) == keep


@pytest.mark.parametrize("job", ["none"], indirect=True)
def test_the_last_process_of_a_node_cleans(job: Job, plain: Path) -> None:
    wait = 'until [ -e end ]; do sleep 0.05; done; ls "$DATA_DIR"'
    first = job.start(plain, "--", "sh", "-c", f"echo begun; {wait}")
    assert first.stdout is not None
    assert "begun\n" in iter(first.stdout.readline, "")
    code, out, err = job.run(plain, "--", "sh", "-c", 'ls "$DATA_DIR"')
    assert (code, "data\n" in out) == (0, True), err
    assert len(job.left()) == 1
    (job.root / "end").touch()
    out, err = first.communicate(timeout=30)
    assert "data\n" in out, err
    assert job.left() == []


def test_who_waits_while_the_last_one_cleans_begins_anew(
    plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outside: None
) -> None:
    to, seen = tmp_path / "to", tmp_path / "seen"
    lock, cleaning = fcntl.flock, [lambda: clean(to, None)]

    def late(descriptor: int, kind: int) -> None:
        while cleaning:  # once, between the opening of the file and its lock
            cleaning.pop()()
        lock(descriptor, kind)

    monkeypatch.setattr(fcntl, "flock", late)
    words = ["sh", "-c", f'cp "$DATA_DIR/data" "{seen}"']
    reporter = Reporter(lambda _: None)
    assert run_on_copy(StageRequest(plain, to), words, [], reporter, keep=False) == 0
    assert not cleaning
    assert seen.read_bytes() == b"12345"
    assert not to.exists()


def test_what_was_made_after_somebody_has_cleaned_is_theirs(
    plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outside: None
) -> None:
    request, reporter = StageRequest(plain, tmp_path / "to"), Reporter(lambda _: None)

    def replaced(*_: object) -> int:
        clean(tmp_path / "to", None)
        stage(request, reporter)
        return 0

    monkeypatch.setattr("dataprep.staging.run._run", replaced)
    assert run_on_copy(request, ["true"], [], reporter, keep=False) == 0
    assert (tmp_path / "to" / "data").exists()
