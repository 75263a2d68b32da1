"""The calls of ``import dataprep`` do what the commands do: bytes, options, errors, progress."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import dataprep
from dataprep.api.options import convert_options, prepare_options
from dataprep.api.progress import Display, Progress, Reporter
from dataprep.errors import DatasetError, UsageError
from dataprep.options import byte_size
from dataprep.plugins import dataset_class
from tests.conftest import FORMATS, Cli, Made, Shelf, everyday, hashes

COUNTS = {"train": 6, "validation": 2}


def keywords(words: tuple[str, ...]) -> dict[str, Any]:
    """``("--sink", "lmdb")`` as Python has it."""
    return {
        name.removeprefix("--"): value for name, value in zip(words[::2], words[1::2], strict=True)
    }


# --- the same as the commands ---


@pytest.mark.parametrize("name", everyday(["lmdb-raw"], ["tfrecord", "hdf5-arrays"]))
def test_a_call_makes_the_bytes_of_the_command(
    tiny: Made, shelf: Shelf, tmp_path: Path, name: str
) -> None:
    expected = tiny if name == "tfrecord" else shelf(name, "--num_shards", "train=6,validation=2")
    sealed = dataprep.prepare(
        "imagenet",
        raw=tiny.raw.path,
        out=str(tmp_path),
        num_shards=COUNTS,
        workers=1,
        **keywords(FORMATS[name]),
    )
    assert hashes(tmp_path) == expected.files
    assert (sealed.out, sealed.records, sealed.shards, sealed.rejected) == (tmp_path, 30, 8, 0)
    assert f"sealed {tmp_path}/manifest.json: 30 records in 8 shards" in str(sealed)
    assert sealed.spread is None


def test_a_conversion_and_what_looks_at_it(cli: Cli, tiny: Made, tmp_path: Path) -> None:
    out = tmp_path / "out"
    seen: list[Progress] = []
    done = dataprep.convert(tiny.out, to=out, sink="lmdb", workers=1, progress=seen.append)
    assert (done.records, done.out) == (30, out)
    assert {it.phase for it in seen} == {"verify", "write", ""}
    seen.clear()
    verified = dataprep.verify(out, level="decode", workers=1, progress=seen.append)
    assert (seen[-1].finished, seen[-1].done) == (True, seen[-1].total)
    assert seen[-1].total == verified.bytes
    assert (verified.records, verified.problems) == (30, ())
    assert dataprep.diff(tiny.out, out, workers=2).same
    assert dataprep.status(out).state == "sealed"
    contents = dataprep.inspect(out)
    assert isinstance(contents, dataprep.Contents)
    assert [split.records for split in contents.splits.values()] == [24, 6]
    assert str(contents) + "\n" == cli("inspect", out).out
    assert str(dataprep.status(out)) + "\n" == cli("status", out).out
    (out / "train_lmdb" / "data.mdb").write_bytes(b"x")
    assert [problem.path for problem in dataprep.verify(out).problems] == ["train_lmdb/data.mdb"]
    assert dataprep.status(out).state == "incomplete"


def test_staging_copies_and_returns_where(tiny: Made, tmp_path: Path) -> None:
    seen: list[Progress] = []
    place = dataprep.stage(
        tiny.out, to=tmp_path / "copy", split=["validation"], bandwidth="1GB", progress=seen.append
    )
    assert place == tmp_path / "copy"
    assert len(dataprep.open(place, "validation")) == 6
    (end,) = (it for it in seen if it.finished)
    assert (end.phase, end.unit, end.done) == ("stage", "byte", end.total)
    copied = [*(place / "validation").iterdir(), *(place / "index" / "validation").iterdir()]
    assert end.total >= sum(path.stat().st_size for path in copied)
    with pytest.raises(UsageError, match="no option 'splitt'; did you mean split"):
        dataprep.stage(tiny.out, to=tmp_path / "copy", splitt=["train"])  # type: ignore[call-arg]
    with pytest.raises(UsageError, match="'nodes' is not"):
        dataprep.stage(tiny.out, to=tmp_path / "copy", share="nodes")  # type: ignore[arg-type]


WRONG: list[dict[str, Any]] = [
    {"layout": "deep"},
    {"num_shards": "train=many"},
    {"resize": "big"},
    {"quality": 0},
    {"io_limit": "200"},
    {"sink": "tfrecord", "sink_option": "datum=raw"},
    {"runner": "direct", "dask_timeout": 5},
    {"lustre_stripe": "many"},
]


@pytest.mark.parametrize("options", WRONG, ids=str)
def test_wrong_options_get_the_message_of_the_command(
    cli: Cli, tiny: Made, tmp_path: Path, options: dict[str, Any]
) -> None:
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    places: dict[str, Any] = {"raw": tiny.raw.path, "out": tmp_path}
    result = cli("imagenet", "--raw", tiny.raw.path, "--out", tmp_path, *words)
    assert result.code == 2
    with pytest.raises(UsageError) as caught:
        dataprep.prepare("imagenet", **places, **options)
    said = str(caught.value).removeprefix("dataprep imagenet: ")
    assert said in result.error
    assert "\n" not in said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"raw": "a", "out": "b", "rezise": 1}, "no option 'rezise'; did you mean resize?"),
        ({"raw": "a", "out": "b", "xyz": 1}, "dataprep imagenet has no option 'xyz'$"),
        ({"raw": "a"}, "Missing option '--out' / '--local_scratch_dir'"),
        ({"raw": "a", "out": "b", "splits": 5}, "5 of type int, expected NAMES"),
        ({"raw": "", "out": "b"}, "--raw.* '' of type str, expected RAW"),
        ({"raw": "a", "out": ""}, "--out.* '' of type str, expected OUT"),
    ],
)
def test_what_only_python_can_get_wrong(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        dataprep.prepare("imagenet", **options)


@pytest.mark.parametrize(
    ("call", "options", "said"),
    [
        (dataprep.lint, {"show": -1}, "--show': -1 is not in the range"),
        (dataprep.lint, {"fewest": "x"}, "--fewest': 'x' is not a valid integer"),
        (dataprep.lint, {"rules": "leek,blank"}, "there is no rule 'leek'"),
        (dataprep.lint, {"write_exclude": "."}, "--write_exclude': File '.' is a directory"),
        (dataprep.report, {"to": "."}, "--to': File '.' is a directory"),
    ],
)
def test_what_is_looked_for_is_checked_as_the_command_does(
    tiny: Made, call: Any, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        call(tiny.out, **options)


def test_an_empty_path_is_not_the_current_directory() -> None:
    for call in (dataprep.verify, dataprep.status, dataprep.open, dataprep.compact, dataprep.stage):
        with pytest.raises(UsageError, match="an argument is empty; is a variable not set"):
            call("")


def test_what_is_a_list_with_commas_in_words_may_be_a_list_or_a_mapping() -> None:
    table = prepare_options(dataset_class("folder"))
    one, other = (
        table.settle({"raw": "a", "out": "b", **given})
        for given in (
            {
                "fractions": {"train": 0.8, "validation": 0.2},
                "num_shards": {"train": 4},
                "attribute_columns": ["age", "sex"],
                "splits": ("train",),
                "sink_option": {"datum": "raw"},
            },
            {
                "fractions": "train=0.8,validation=0.2",
                "num_shards": "train=4",
                "attribute_columns": "age,sex",
                "splits": "train",
                "sink_option": "datum=raw",
            },
        )
    )
    assert one == other


def test_a_package_that_is_missing_is_told_before_anything_is_scanned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "array_record", None)
    (tmp_path / "raw" / "cat").mkdir(parents=True)
    (tmp_path / "raw" / "cat" / "0.jpg").touch()
    with pytest.raises(UsageError, match=r"array_record cannot be imported .*: pip install "):
        dataprep.prepare("folder", raw=tmp_path / "raw", out=tmp_path / "o", sink="arrayrecord")
    assert not (tmp_path / "o").exists()


def test_options_are_those_of_the_table_with_its_defaults() -> None:
    for name in ("imagenet", "chestxray14", "folder"):
        table = prepare_options(dataset_class(name))
        values = table.settle({"raw": "a", "out": "b"})
        assert values.keys() == {option.name for option in table.table}
        assert values["color"] == ("gray" if name == "chestxray14" else "keep")
        assert (values["quality"], values["overwrite"], values["sink_option"]) == (95, False, {})
    assert convert_options().settle({"to": "a", "sink": "b"})["verify"] == "hash"
    given = {"raw": "a", "out": "b", "num_shards": 7, "io_limit": 10**9, "stats": None}
    both = prepare_options(dataset_class("imagenet")).settle(given)
    assert (both["num_shards"], both["io_limit"], both["stats"]) == ({"*": 7}, 10**9, "off")


@pytest.mark.parametrize("hidden", [".directory", "lost+found"])
def test_a_directory_of_somebody_else_is_refused_before_anything_is_made(
    tiny: Made, tmp_path: Path, hidden: str
) -> None:
    (tmp_path / hidden).mkdir()  # what file systems keep there is nobody's
    (tmp_path / hidden / "x").write_text("")
    (tmp_path / "train" / "deep").mkdir(parents=True)
    options: dict[str, Any] = {
        "raw": tiny.raw.path,
        "out": tmp_path,
        "num_shards": COUNTS,
        "workers": 1,
    }
    foreign = tmp_path / "train" / "deep" / "notes.txt"
    foreign.write_text("mine")
    attempts: list[Callable[[], object]] = [
        lambda: dataprep.prepare("imagenet", overwrite=True, **options),
        lambda: dataprep.convert(tiny.out, to=tmp_path, sink="lmdb"),
    ]
    for call in attempts:
        with pytest.raises(DatasetError, match=f"{foreign} is in the way: .* a new or an empty"):
            call()
    assert not (tmp_path / ".dataprep").exists()
    foreign.unlink()
    assert dataprep.prepare("imagenet", **options).records == 30


# --- a guest in somebody's process ---


def test_a_call_leaves_signals_alone_and_works_in_a_thread(tiny: Made, tmp_path: Path) -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    seen: list[object] = []

    def run() -> None:
        seen.append(
            dataprep.prepare(
                "imagenet", raw=tiny.raw.path, out=tmp_path, num_shards=COUNTS, workers=1
            )
        )

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(120)
    assert len(seen) == 1
    assert hashes(tmp_path) == tiny.files
    assert {number: signal.getsignal(number) for number in before} == before


def test_an_interrupt_is_the_callers_and_the_same_call_resumes(tiny: Made, tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "raw": tiny.raw.path,
        "out": tmp_path,
        "num_shards": COUNTS,
        "workers": 1,
    }

    def interrupt(progress: Progress) -> None:
        if progress.phase == "write":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dataprep.prepare("imagenet", progress=interrupt, **options)
    assert not (tmp_path / "manifest.json").exists()
    assert dataprep.prepare("imagenet", **options).records == 30
    assert hashes(tmp_path) == tiny.files


def test_a_script_without_a_guard_is_told_what_to_write(tiny: Made, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import multiprocessing, dataprep\n"
        "def nothing(): pass\n"
        "started = multiprocessing.get_context('spawn').Process(target=nothing)\n"
        f"dataprep.convert({str(tiny.out)!r}, to={str(tmp_path / 'out')!r}, sink='lmdb')\n"
        "started.start(); started.join()\n"
    )
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, check=False, timeout=120
    )
    assert "put its calls of dataprep under `if __name__ ==" in done.stderr
    assert dataprep.status(tmp_path / "out").state == "sealed"


def test_importing_is_free_and_names_are_there(tiny: Made) -> None:
    code = (
        "import sys, dataprep; dataprep.errors.UsageError;"
        "dataprep.prepare; dataprep.status; dataprep.Progress;"
        "print({'numpy', 'PIL', 'apache_beam', 'duckdb', 'pyarrow', 'tqdm'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
    for name in dataprep.__all__:
        assert getattr(dataprep, name)
    with pytest.raises(AttributeError, match="'dataprep' has no attribute 'Sample'"):
        getattr(dataprep, "Sample")  # noqa: B009  # checkers know that it is not there


# --- progress ---


def test_progress_is_told_in_order_and_ends_at_the_total(tiny: Made, tmp_path: Path) -> None:
    seen: list[Progress] = []
    dataprep.prepare(
        "imagenet",
        raw=tiny.raw.path,
        out=tmp_path,
        num_shards=COUNTS,
        workers=1,
        progress=seen.append,
    )
    phases = [it for it in seen if it.phase]
    assert list(dict.fromkeys(it.phase for it in phases)) == ["index", "write"]
    for phase, unit in (("index", "part"), ("write", "image")):
        own = [it for it in phases if it.phase == phase]
        assert [it.done for it in own] == sorted(it.done for it in own)
        assert own[-1].done == own[-1].total > 0
        assert [it.finished for it in own] == [False] * (len(own) - 1) + [True]
        assert {it.unit for it in own} == {unit}
    assert str(phases[-1]).startswith("write: 100% 30/30 images")
    messages = [it.message for it in seen if it.message is not None]
    assert any("train: 24 images" in text for text in messages)
    assert all(str(it) == it.message for it in seen if it.message)


def test_a_command_in_a_pipe_has_plain_lines_and_none_of_them_on_stdout(
    cli: Cli, tiny: Made, tmp_path: Path
) -> None:
    result = cli.done(cli.start(*tiny.command(tmp_path)))
    assert result.code == 0
    assert not {"\r", "\x1b"} & {*result.out, *result.err}
    assert "%" not in result.out
    assert result.out.splitlines()[-1].startswith("sealed ")
    lines = result.err.splitlines()
    assert all(line.startswith(("index: 100%", "write: 100% 30/30 images")) for line in lines)


def test_through_a_pipe_a_line_comes_when_it_is_time(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, seconds in (("_LINE_SECONDS", 3.0), ("_RATE_SECONDS", 0.0)):
        monkeypatch.setattr(f"dataprep.api.progress.{name}", seconds)
    clock = iter(range(100))
    monkeypatch.setattr("dataprep.api.progress.time.monotonic", lambda: next(clock))
    display = Display()
    reporter = Reporter(display)
    reporter.begin("verify", 2_000_000, "byte")
    for _ in range(2):
        reporter.advance(1_000_000)
    reporter.finished()
    display.close()
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("verify: 50% 1.0 MB of 2.0 MB, ")
    assert lines[-1].startswith("verify: 100% 2.0 MB of 2.0 MB, ")
    assert 2 <= len(lines) <= 3


_ON_A_TERMINAL = """
from dataprep.api.progress import Display, Progress
display = Display()
for done in range(0, 60_000, 10_000):
    display(Progress("write", done, 100_000, "image", rate=1_000.0))
display(Progress(message="a message"))
display.close()
"""


def test_on_a_terminal_there_is_a_bar_with_messages_above_it() -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 25, 120, 0, 0))
    process = subprocess.Popen([sys.executable, "-c", _ON_A_TERMINAL], stderr=theirs, stdout=theirs)
    os.close(theirs)
    shown = b""
    try:
        while piece := os.read(ours, 4096):
            shown += piece
    except OSError:  # how Linux says that the other side is closed
        pass
    os.close(ours)
    assert process.wait(60) == 0
    drawn = shown.decode().split("\r")
    counts = [int(found[1]) for frame in drawn if (found := re.search(r" (\d+)/100000", frame))]
    assert list(dict.fromkeys(counts)) == [0, 10_000, 20_000, 30_000, 40_000, 50_000]
    assert "1,000 images/s, 0:50 left" in shown.decode()
    assert "a message" in [frame.strip() for frame in drawn]


# --- names and sizes ---


@pytest.mark.parametrize(
    ("text", "size"),
    [("150MB", 150_000_000), ("4MiB", 4 << 20), ("1.5 GB", 1_500_000_000), ("7", 7), ("2K", 2000)],
)
def test_sizes(text: str, size: int) -> None:
    assert byte_size(text) == byte_size(size) == size
    with pytest.raises(ValueError, match="expected a size such as"):
        byte_size(f"{text}x")


# --- for scripts ---


def printed(cli: Cli, *words: object) -> Any:
    result = cli(*words, "--json")
    return json.loads(result.out)


@pytest.mark.parametrize(
    ("call", "kind"),
    [("status", dataprep.JobStatus), ("verify", dataprep.Verified), ("inspect", dataprep.Contents)],
)
def test_json_has_the_fields_of_the_class(cli: Cli, tiny: Made, call: str, kind: type[Any]) -> None:
    found = printed(cli, call, tiny.out)
    assert list(found) == [field.name for field in fields(kind)]
    result = getattr(dataprep, call)(tiny.out)
    for name in ("state", "records", "problems", "dataset", "noted_images"):
        if name in found:
            expected = getattr(result, name)
            assert found[name] == (list(expected) if isinstance(expected, tuple) else expected)


def test_json_of_what_is_wrong_is_json_too(
    cli: Cli, tiny: Made, radiographs: Made, tmp_path: Path
) -> None:
    out = tiny.copy(tmp_path / "out")
    (out / "train" / "train-00000-of-00006").unlink()
    result = cli("verify", out, "--json")
    assert result.code == 1
    (problem,) = json.loads(result.out)["problems"]
    kinds = {"foreign": False, "missing": True, "unreadable": False}
    assert problem == {"path": "train/train-00000-of-00006", "what": "is missing", **kinds}
    assert printed(cli, "status", out)["state"] == "incomplete"
    result = cli("diff", tiny.out, radiographs.out, "--json")
    assert result.code == 1
    found = json.loads(result.out)
    assert list(found) == [field.name for field in fields(dataprep.Difference)]
    assert found["splits"][0]["only_a"] == 24


def test_watching_ends_with_the_run(
    cli: Cli, tiny: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli("status", tiny.out, "--watch").out == cli("status", tiny.out).out
    monkeypatch.setattr("dataprep.cli.checks._LINE_SECONDS", 0.2)
    out = tiny.copy(tmp_path / "out")
    program = (
        "import sys; from pathlib import Path; from dataprep.jobs.output.lock import locked;"
        "from dataprep.jobs.output.workspace import Workspace\n"
        "with locked(Workspace(Path(sys.argv[1]))): print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(out)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        holder.stdout.readline()
        timer = threading.Timer(1.0, holder.stdin.close)
        timer.start()
        said = cli("status", out, "--watch").out
        timer.join()
    assert said.count(f"running, process {holder.pid}") >= 2
    assert said.splitlines()[-3] == f"{out}: sealed"
