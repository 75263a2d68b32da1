"""What is crashed: every command that writes, what is there before it, and how it is judged."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import tarfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from PIL import Image

import dataprep
from dataprep.errors import DatasetError
from dataprep.sealed.verify import verify
from dataprep.synthesize.chestxray14 import synthesize_chestxray14
from dataprep.tables.decisions import Decision, write_decisions
from tests.conftest import FORMATS, Cli
from tests.crash.recorder import MOST_ALONE, Recording, quick, recorded
from tests.crash.states import Kind, State, crash_states


@dataclass(frozen=True, slots=True)
class Scenario:
    """A command that changes a directory.

    Attributes:
        root: the directory, as it is before.
        words: the command.
        lasts: what must be there once the command has returned, even after a power cut.
        sweeps: a further command, if it takes one to remove what a killed one leaves.
    """

    root: Path
    words: list[str]
    lasts: str = "out/manifest.json"
    sweeps: list[str] | None = None


def _run(words: Sequence[str]) -> None:
    result = Cli()(*words)
    assert result.code == 0, result


def _add_images(raw: Path, name: str, numbers: range) -> None:
    (raw / name).mkdir(parents=True, exist_ok=True)
    for number in numbers:
        Image.new("RGB", (16, 16), (20 * number, 90, 40)).save(raw / name / f"{number}.jpg")


def prepared(place: Path, *options: object, shards: int = 2) -> Scenario:
    """A few images of two classes."""
    raw, root = place / "raw", place / "root"
    _add_images(raw, "bar", range(3))
    _add_images(raw, "foo", range(3, 6))
    root.mkdir()
    words = ("folder", "--raw_data_dir", raw, "--local_scratch_dir", root / "out", "--workers", 1)
    return Scenario(root, [*map(str, words), "--num_shards", str(shards), *map(str, options)])


def unpacked(place: Path) -> Scenario:
    """Of archives that are unpacked into copies, which the seal deletes."""
    scenario = prepared(place, shards=1)
    for folder in sorted((place / "raw").iterdir()):
        with tarfile.open(f"{folder}.tar.xz", "w:xz") as archive:
            archive.add(folder, ".")
        shutil.rmtree(folder)
    return scenario


def planned(place: Path, options: Sequence[str], shards: int) -> Scenario:
    """All but the shards and the seal is there: what comes before is the same for every format."""
    scenario = prepared(place, *options, shards=shards)
    _run(scenario.words)
    out = scenario.root / "out"
    for path in (*out.iterdir(), *(out / ".dataprep" / "commits").iterdir()):
        if path.name != ".dataprep":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    return scenario


def radiographs(place: Path) -> Scenario:
    """Of gzip archives, which have restart points; one is missing, unlisted, truncated each."""
    synthesize_chestxray14(place / "raw", patients=6, archives=2, size=8, defects=True)
    (place / "root").mkdir()
    places = ("--raw_data_dir", place / "raw", "--local_scratch_dir", place / "root" / "out")
    split = ("--split", "random-by-patient", "--test_fraction", 0.4, "--validation_fraction", 0)
    words = (*places, *split, "--num_shards", 1, "--max_bad", 3, "--workers", 1)
    return Scenario(place / "root", ["chestxray14", *map(str, words)])


def resumed(place: Path) -> Scenario:
    """A shard and the seal are gone."""
    scenario = prepared(place)
    _run(scenario.words)
    for name in ("manifest.json", "train/train-00001-of-00002"):
        (scenario.root / "out" / name).unlink()
    return scenario


def overwritten(place: Path) -> Scenario:
    """Shards of the same names and sizes take the places of others."""
    scenario = prepared(place)
    _run(scenario.words)
    return replace(scenario, words=[*scenario.words, "--overwrite", "--seed", "1"])


def excluded(place: Path) -> Scenario:
    (place / "exclude.csv").write_text("split,key\ntrain,bar/0.jpg\n")
    return prepared(place, "--exclude", place / "exclude.csv", shards=1)


def converted(place: Path) -> Scenario:
    made = prepared(place)
    _run(made.words)
    (made.root / "out").rename(place / "source")
    words = ("convert", place / "source", "--to", made.root / "out", "--sink", "webdataset")
    return Scenario(made.root, [*map(str, words), "--workers", "1"])


def appended(place: Path) -> Scenario:
    made = prepared(place, "--fractions", "train=0.7,test=0.3", shards=1)
    _run(made.words)
    _add_images(place / "raw", "bar", range(6, 9))
    _add_images(place / "raw", "new", range(9, 12))
    words = " ".join(made.words).replace(" --num_shards 1", "")
    return replace(made, words=[*words.split(), "--append"])


def appended_to_cleaned(place: Path) -> Scenario:
    """What people decided was applied before; one of their images was moved."""
    made = prepared(place, "--fractions", "train=0.7,test=0.3", shards=1)
    _run(made.words)
    (made.root / "out").rename(place / "first")
    keys = [example.key for example in dataprep.open(place / "first", "train")]
    lines = [
        Decision(keys[0], "train", "leave_out"),
        Decision(keys[1], "train", "split", "test"),
        Decision("class:foo", "", "label", "baz"),
    ]
    write_decisions(place / "decisions.csv", lines)
    words = ("select", place / "first", "--to", made.root / "out", "--workers", 1)
    _run([*map(str, words), "--decisions", str(place / "decisions.csv")])
    _add_images(place / "raw", "foo", range(6, 12))
    return replace(
        made, words=[*" ".join(made.words).replace(" --num_shards 1", "").split(), "--append"]
    )


def compacted(place: Path) -> Scenario:
    made = appended(place)
    _run(made.words)
    return replace(made, words=["compact", str(made.root / "out"), "--workers", "1"])


def staged(place: Path, before: Callable[[Path], Scenario] | None = None) -> Scenario:
    """A copy of what a command makes; in the place of one of what was there before it."""
    made = prepared(place) if before is None else before(place)
    root, source = place / "copy", made.root / "out"
    root.mkdir()
    words = ["stage", str(source), "--to", str(root / "out")]
    if before is not None:
        _run(words)
    _run(made.words)
    return Scenario(root, words, ".")  # with its node, the copy may be gone, too


def staged_together(place: Path) -> Scenario:
    """Of a plain directory, so many small files that they are flushed together."""
    root, source = place / "copy", place / "source"
    root.mkdir()
    for number in range(MOST_ALONE + 2):
        (source / "ab"[number % 2]).mkdir(parents=True, exist_ok=True)
        (source / "ab"[number % 2] / f"{number}").write_bytes(bytes([number]) * 100)
    return Scenario(root, ["stage", str(source), "--to", str(root / "out")], ".")


def cleaned(place: Path) -> Scenario:
    """A copy is removed again."""
    made = staged(place)
    _run(made.words)
    return replace(made, words=[*made.words[:4], "--clean"])


def reported(place: Path) -> Scenario:
    made = prepared(place, shards=1)
    _run(made.words)
    return Scenario(made.root, ["report", str(made.root / "out")], ".", made.words)


# What writes something new is one line more here.
SCENARIOS: dict[str, Callable[[Path], Scenario]] = {
    "prepare": partial(prepared, shards=1),
    "radiographs": radiographs,
    "unpacked": unpacked,
    "resume": resumed,
    "overwrite": overwritten,
    "exclude": excluded,
    "convert": converted,
    "append": appended,
    "append-cleaned": appended_to_cleaned,
    "compact": compacted,
    "stage": staged,
    "stage-overwritten": partial(staged, before=overwritten),
    "stage-appended": partial(staged, before=appended),
    "stage-together": staged_together,
    "stage-clean": cleaned,
    "report": reported,
    **{
        f"{name}-{shards}": partial(planned, options=options, shards=shards)
        for name, options in FORMATS.items()
        for shards in (1, 2)
    },
}


def chosen_kinds(name: str) -> tuple[Kind, ...]:
    """Which kinds of states of a scenario are tried."""
    # What may be lost alone, `prepare` has lost already.
    like_prepare = name in ("exclude", "radiographs", "unpacked")
    return ("kill", "power") if like_prepare else ("kill", "power", "single")


# --- trying all states ---


@dataclass(frozen=True, slots=True)
class Found:
    """What a sweep did, and the states with which something is wrong."""

    operations: int
    states: int
    problems: list[str]


def states_of(scenario: Scenario) -> tuple[Recording, list[State]]:
    """What the command does, and what a crash of it may leave."""
    with recorded(scenario.root) as recording:
        _run(scenario.words)
    return recording, crash_states(recording)


def sweep(
    scenario: Scenario,
    chosen: Callable[[Sequence[State]], Sequence[State]],
    mutant: Callable[[], AbstractContextManager[object]] = nullcontext,
    most: int = 5,
) -> Found:
    """Record a command, and let it recover from every crash.

    Args:
        scenario: the command.
        chosen: those of the states that are tried.
        mutant: changes the program, as it is recorded and as it recovers.
        most: problems, after which it stops.
    """
    root, before = scenario.root, scenario.root.with_name("before")
    problems: list[str] = []
    with quick():
        shutil.copytree(root, before)
        _run(scenario.words)
        whole = _inventory(root)
        shutil.rmtree(root)
        before.rename(root)
        with mutant():
            recording, states = states_of(scenario)
            states = [*chosen(states)]
            # Those that go wrong may be neighbours; who looks for one finds it sooner like this.
            random.Random(0).shuffle(states)
            for judge in (_seen, partial(_recovered, whole=whole)):
                for state in states:
                    state.make(root)
                    text = f"state {state.number}, {state.kind} {state.text}: "
                    problems += (text + what for what in judge(scenario, state))
                    if len(problems) >= most:
                        return Found(len(recording.operations), len(states), problems)
    return Found(len(recording.operations), len(states), problems)


def _inventory(root: Path) -> dict[str, str]:
    """Every file; of those that are nobody's but the program's, only the names."""
    found = [path for path in sorted(root.rglob("*")) if path.is_file()]
    return {
        str(path): "" if "/.data" in str(path.relative_to(root)) else _sha256(path)
        for path in found
    }


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _seen(scenario: Scenario, state: State) -> Iterator[str]:
    """What readers would take for good, and is not."""
    out = scenario.root / "out"
    if state.ended and not (scenario.root / scenario.lasts).exists():
        yield f"the command had succeeded, and {scenario.lasts} is gone"
    if (out / "manifest.json").exists():
        try:
            yield from (f"{it.path} {it.what}" for it in verify(out, "hash", threads=1).problems)
        except DatasetError as error:
            yield str(error)
    if (out / "report.html").exists() and b"</html>" not in (out / "report.html").read_bytes():
        yield "report.html is torn"
    if (sentinel := out / ".dataprep-stage" / "complete.json").exists():
        for name, size, sha256, _ in json.loads(sentinel.read_bytes())["files"]:
            path = out / name
            if (
                not path.is_file()
                or path.stat().st_size != size
                or sha256 not in (None, _sha256(path))
            ):
                yield f"{name} is not what complete.json says"


def _recovered(scenario: Scenario, state: State, whole: dict[str, str]) -> Iterator[str]:
    for words in (scenario.words, scenario.sweeps):
        if words is not None and (result := Cli()(*words)).code:
            yield f"the same command failed: {result.err.strip().splitlines()[-1]}"
            return
    found = _inventory(scenario.root)
    yield from (f"{name} is missing afterwards" for name in whole.keys() - found.keys())
    yield from (f"{name} is left" for name in found.keys() - whole.keys())
    yield from (f"{name} differs" for name in found.keys() & whole if found[name] != whole[name])
