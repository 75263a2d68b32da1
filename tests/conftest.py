"""Small raw sets, the command line in this process and in another, and what came out."""

from __future__ import annotations

import csv
import fcntl
import hashlib
import io
import os
import pickle
import random
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.metadata import entry_points, version
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from PIL import Image
from pyarrow import parquet

from dataprep import plugins
from dataprep.cli import main
from dataprep.synthesize.chestxray14 import synthesize_chestxray14
from dataprep.synthesize.imagenet import synthesize_imagenet
from dataprep_schemas import imagenet_classes

_Thing = TypeVar("_Thing")

# Tests start Python hundreds of times, and each of their processes reads some 250 of these modules:
# what is compiled is kept, also where the shell says otherwise.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

DATAPREP = (sys.executable, "-m", "dataprep")
# On this machine a set as small as those of tests is otherwise made before Beam would be imported.
BEAM = ("--", "--job_name=test")

# What `make test` leaves to `make test-all`, beside tests that are marked `thorough`: what needs
# other people's programs, and what goes through every format, engine or fault.
THOROUGH = (
    *("dask", "interop", "remote", "slurm", "docs/test_guides.py", "review/test_loaders.py"),
    *("cli/test_formats.py", "cli/test_resources.py"),
    "faults/test_changed_meanwhile.py",
    *("faults/test_growing.py", "faults/test_kill.py"),
    *("pipelines/test_formats.py", "pipelines/test_invariance_radiographs.py"),
    *("pipelines/test_network_denied.py", "pipelines/test_portable_runner.py"),
    *("pipelines/test_rounds.py", "pipelines/test_scan_processes.py"),
    *("pipelines/test_slurm_workers.py", "review/test_report.py", "staging/test_broadcast.py"),
)

# What `make test-all` leaves to `make test-nightly`: what changes when others release something and
# not with a commit. That the bytes are still those is seen by tests/golden.
NIGHTLY = ("interop/test_readers.py",)

# Likewise, of tests of every format: these cost processes, and one of each kind is kept; that their
# bytes are the same is also seen by tests/golden.
THOROUGH_TESTS = {
    *(f"test_damage_is_one_line[{name}]" for name in ("hdf5", "hdf5-arrays", "hdf5-caffe", "raw")),
    *(
        f"test_equal_examples_give_equal_bytes[{name}]"
        for name in (
            *("arrayrecord", "encoded", "hdf5-arrays", "hdf5-caffe"),
            *("parquet", "raw", "recordio", "webdataset"),
        )
    ),
}

# What takes longest; whether its tests share what takes long to make, and so a process.
LONG = {
    "test_release.py": True,
    "training/test_train_script.py": True,
    "test_notebooks.py": False,
    "crash/test_crash.py": False,
    "crash/test_mutants.py": False,
    "fuzz/test_fuzz.py": False,
    "simulation/test_mutants.py": False,
    "simulation/test_simulation.py": False,
}

# What tests skip without: packages by the name of their module, and programs.
PACKAGES = {
    "TensorFlow": "tensorflow",
    "DALI": "nvidia",
    "PyTorch": "torch",
    "Lightning": "pytorch_lightning",
    "webdataset": "webdataset",
    "array-record": "array_record",
    "Grain": "grain",
    "Hugging Face datasets": "datasets",
    "mpi4py": "mpi4py",
    "Dask": "distributed",
    "dask-jobqueue": "dask_jobqueue",
    "mlcroissant": "mlcroissant",
    "Selenium": "selenium",
    "nbclient": "nbclient",
    "ipykernel": "ipykernel",
}
BESIDE = Path(__file__).parents[1] / ".venv-beside"
FOREIGN = Path(__file__).parents[1] / ".venv-foreign"
PANDAS = {version: Path(__file__).parents[1] / f".venv-pandas{version}" for version in ("2", "3")}
PROGRAMS = (
    "chromium",
    "chromedriver",
    "slurmctld",
    "slurmd",
    "mpirun.openmpi",
    "shellcheck",
)

# Every format, with the options that make it different inside; and whether it keeps image files.
FORMATS = {
    "tfrecord": ("--sink", "tfrecord"),
    "lmdb": ("--sink", "lmdb"),
    "lmdb-raw": ("--sink", "lmdb", "--sink_option", "datum=raw", "--resize", "16x16"),
    "recordio": ("--sink", "recordio"),
    "hdf5": ("--sink", "hdf5"),
    "hdf5-arrays": ("--sink", "hdf5-arrays", "--resize", "16x16"),
    "hdf5-caffe": ("--sink", "hdf5-caffe", "--resize", "16x16"),
    "webdataset": ("--sink", "webdataset"),
    "parquet": ("--sink", "parquet"),
    "arrayrecord": ("--sink", "arrayrecord"),
}
# The same of images that have one size already.
UNSIZED = {
    name: tuple(takewhile(lambda word: word != "--resize", options))
    for name, options in FORMATS.items()
}
ENCODED = [name for name, options in FORMATS.items() if "--resize" not in options]
PIXELS = [name for name in FORMATS if name not in ENCODED]


def everyday(chosen: Sequence[Any], others: Sequence[Any]) -> list[Any]:
    """Values of a parameter, or tuples of several, of which the others are left to `make test-all`.

    What they would show is shown by a shorter test, which is to be named where this is called.
    """
    left = [it if isinstance(it, tuple) else (it,) for it in others if it not in chosen]
    return [*chosen, *(pytest.param(*it, marks=pytest.mark.thorough) for it in left)]


def nightly(*values: Any) -> list[Any]:
    """Values of a parameter, or tuples of several, which are left to `make test-nightly`."""
    return [
        pytest.param(*(it if isinstance(it, tuple) else (it,)), marks=pytest.mark.nightly)
        for it in values
    ]


def few(examples: int, otherwise: int = 100) -> settings:
    """So many examples a day of what costs much, a database or a set each."""
    daily = settings.get_current_profile_name() == "everyday"
    return settings(max_examples=examples if daily else otherwise)


# CheXNet's order, written out once more: what is expected must not come from the code under test.
FINDINGS = (
    *("Atelectasis", "Cardiomegaly", "Effusion", "Infiltration", "Mass", "Nodule", "Pneumonia"),
    *("Pneumothorax", "Consolidation", "Edema", "Emphysema", "Fibrosis", "Pleural_Thickening"),
    "Hernia",
)

# A deadline is a timed assertion: it fails on a busy machine and proves nothing.
settings.register_profile("untimed", deadline=None)
settings.register_profile("everyday", deadline=None, max_examples=15)
settings.load_profile("untimed")


# `nohup make test &` hands on that SIGINT and SIGHUP are ignored, and so would every command that a
# test stops. What has a handler here is the default again in the processes that are started.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda _number, _frame: None)  # the tests themselves go on


def pytest_configure(config: pytest.Config) -> None:
    """Try fewer examples of a property every day."""
    if "not thorough" in config.getoption("markexpr"):
        settings.load_profile("everyday")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even read, in each process, modules of which every test is left out."""
    left = "not thorough" in config.getoption("markexpr") and _is_thorough(collection_path)
    return True if left else None


def _is_thorough(path: Path) -> bool:
    return _is_one_of(path, (*THOROUGH, *NIGHTLY))


def _is_one_of(path: Path, names: Sequence[str]) -> bool:
    return any(path.is_relative_to(Path(__file__).parent / name) for name in names)


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Say first what will not run."""
    lines = []
    if "not thorough" in config.getoption("markexpr"):
        lines.append("left to `make test-all`: sweeps, every kill, foreign readers, Dask, Slurm")
    missing = [name for name, module in PACKAGES.items() if find_spec(module) is None]
    missing += [f"pandas {version}" for version, place in PANDAS.items() if not place.exists()]
    missing += [] if BESIDE.exists() else ["torchvision and JAX"]
    missing += [] if FOREIGN.exists() else ["polars, Lance, LitData, TFDS, Energon"]
    missing += [] if "DATAPREP_PETASTORM_PYTHON" in os.environ else ["Petastorm"]
    missing += [] if "DATAPREP_MXNET_PYTHON" in os.environ else ["MXNet"]
    missing += [name for name in PROGRAMS if shutil.which(name) is None]
    missing += [] if os.geteuid() == 0 else ["root"]
    if missing:
        bringing = "`make readers` and `make test-nightly` bring packages"
        lines.append(f"skipped, for want of: {', '.join(missing)} ({bringing})")
    return lines


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None]:
    """Mark the tests of whole folders and modules, and of what cannot be written here."""
    paths = {item.path for item in items}
    thorough = {path for path in paths if _is_thorough(path)}
    nightly = {path for path in paths if _is_one_of(path, NIGHTLY)}
    for item in items:
        if item.path in nightly:
            item.add_marker(pytest.mark.nightly)
        every_night = item.get_closest_marker("nightly") is not None
        if every_night or item.path in thorough or item.name in THOROUGH_TESTS:
            item.add_marker(pytest.mark.thorough)
        parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
        arrayrecord = any(
            isinstance(it, str) and it.split("/")[-1] == "arrayrecord" for it in parameters
        )
        if arrayrecord and find_spec("array_record") is None:
            item.add_marker(pytest.mark.skip("needs array-record, which writes this format"))
    yield  # those that are not asked for are left out here
    items[:] = _longest_first(items, getattr(config, "workerinput", {}).get("workercount", 1))


def _longest_first(items: Sequence[pytest.Item], workers: int) -> list[pytest.Item]:
    """The same tests in another order: each worker, which gets a slice, begins with some of `LONG`.

    Or the last worker would still be at them when the others have nothing left to do.
    """
    long = {Path(__file__).parent / name: together for name, together in LONG.items()}
    pieces: dict[object, list[pytest.Item]] = {}
    rest = []
    for item in items:
        if item.path in long:
            pieces.setdefault(item.path if long[item.path] else item, []).append(item)
        else:
            rest.append(item)
    order = sorted(pieces.values(), key=lambda piece: -len(piece))
    found: list[pytest.Item] = []
    for number in range(workers):
        ours = [item for piece in order[number::workers] for item in piece]
        size = (len(items) - len(found)) // (workers - number)  # as pytest-xdist does it
        found += ours
        found += (more := rest[: max(0, size - len(ours))])
        del rest[: len(more)]
    return [*found, *rest]


@dataclass(frozen=True)
class Result:
    """What a command said and returned."""

    code: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """The one line of the error; progress may come before it, a traceback may not."""
        assert "Traceback" not in self.err
        lines = self.err.splitlines()
        assert lines, self
        assert lines[-1].startswith(("dataprep: error: ", "Error: ")), self.err
        assert sum("rror: " in line for line in lines) == 1, self.err
        return lines[-1]


class Cli:
    """The command line."""

    def __call__(self, *words: object) -> Result:
        """Run a command in this process."""
        out, err = io.StringIO(), io.StringIO()
        before = signal.getsignal(signal.SIGTERM)  # which a copier that has failed ignores
        try:
            with redirect_stdout(out), redirect_stderr(err):
                code = main([str(word) for word in words])
        finally:
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, before)
        return Result(code, out.getvalue(), err.getvalue())

    @staticmethod
    def done(process: subprocess.Popen[str], timeout: float = 120) -> Result:
        """Wait for a process that `start` started."""
        out, err = process.communicate(timeout=timeout)
        return Result(process.returncode, out, err)

    @staticmethod
    def start(
        *words: object, program: Sequence[str] = DATAPREP, **options: object
    ) -> subprocess.Popen[str]:
        """Run a command in a process, and a process group, of its own."""
        process: subprocess.Popen[str] = subprocess.Popen(
            [*program, *map(str, words)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            **options,  # type: ignore[call-overload]
        )
        return process


@dataclass(frozen=True)
class Raw:
    """A raw set and how it is prepared."""

    path: Path
    options: tuple[str, ...]
    dataset: str = "imagenet"

    def command(self, out: Path, *more: object) -> list[str]:
        """The words that prepare it into ``out``."""
        places = ["--raw_data_dir", str(self.path), "--local_scratch_dir", str(out)]
        return [self.dataset, *places, *self.options, *map(str, more)]

    def copy(self, path: Path) -> Raw:
        """The same at another place, for a test that changes it."""
        shutil.copytree(self.path, path)
        return replace(self, path=path)


@dataclass(frozen=True)
class Made:
    """A raw set, and the bytes that must come out of it whatever happens."""

    raw: Raw
    out: Path
    files: dict[str, str]

    def command(self, out: Path, *more: object) -> list[str]:
        """The words that prepare the raw set into ``out``."""
        return self.raw.command(out, *more)

    def copy(self, path: Path) -> Path:
        """A finished output directory for a test that damages it."""
        shutil.copytree(self.out, path)
        return path


def hashes(out: Path) -> dict[str, str]:
    """The SHA-256 of every file of an output directory, dataprep's own notes left out."""
    return {
        path.relative_to(out).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(out.rglob("*"))
        if path.is_file() and ".dataprep" not in path.relative_to(out).parts
    }


def rows_of(out: Path, *statuses: str) -> list[dict[str, Any]]:
    """Rows of the table of records, as pyarrow reads it; all, or those with one of the statuses."""
    rows: list[dict[str, Any]] = parquet.read_table(out / "records.parquet").to_pylist()
    return [row for row in rows if not statuses or row["status"] in statuses]


def leftovers(out: Path) -> list[str]:
    """Files under ``out`` that no run should leave: partial ones, and the lock."""
    return [
        path.relative_to(out).as_posix()
        for path in out.rglob("*")
        if path.name.endswith(".partial") or path.name == "lock"
    ]


def write_tiny_raw(path: Path, *, classes: int, images: int, validation: int) -> None:
    """A tree of 16x16 images in the official layout; a millisecond for ten images."""
    colours = random.Random(0)

    def image() -> bytes:
        stream = io.BytesIO()
        colour = (colours.randrange(256), colours.randrange(256), colours.randrange(256))
        Image.new("RGB", (16, 16), colour).save(stream, "JPEG")
        return stream.getvalue()

    for index in range(classes):
        synset = imagenet_classes()[3 + index * 300][0]
        (path / "train" / synset).mkdir(parents=True)
        for number in range(images):
            (path / "train" / synset / f"{synset}_{number}.JPEG").write_bytes(image())
    (path / "validation").mkdir(parents=True)
    for number in range(1, validation + 1):
        (path / "validation" / f"ILSVRC2012_val_{number:08d}.JPEG").write_bytes(image())


@dataclass(frozen=True)
class Labelled:
    """What the label CSV says of a radiograph, read by the standard library."""

    findings: frozenset[str]
    attributes: dict[str, int | str]

    def vector(self, order: tuple[str, ...] = FINDINGS) -> list[int]:
        """A one for each finding, in the order of the classes."""
        assert self.findings <= set(order)
        return [int(finding in self.findings) for finding in order]


def read_labels(raw: Path) -> dict[str, Labelled]:
    """The rows of a raw set's label CSV by image; that of 2020, which has no odd ages."""
    with (raw / "Data_Entry_2017_v2020.csv").open(encoding="ascii", newline="") as file:
        return {
            row["Image Index"]: Labelled(
                frozenset(row["Finding Labels"].split("|")) - {"No Finding"},
                {
                    "patient_id": int(row["Patient ID"]),
                    "view": row["View Position"],
                    "age": int(row["Patient Age"]),
                    "gender": row["Patient Gender"],
                    "follow_up": int(row["Follow-up #"]),
                },
            )
            for row in csv.DictReader(file)
        }


def write_radiographs(path: Path, *, defects: bool = False, layout: str = "tar.gz") -> None:
    """89 made-up radiographs of 30 patients in 3 archives, 24 pixels a side."""
    synthesize_chestxray14(path, patients=30, archives=3, layout=layout, size=24, defects=defects)  # type: ignore[arg-type]


def write_folders(path: Path) -> None:
    """24 images of 16x16 in three class folders: JPEGs, and one PNG in each."""
    colours = random.Random(1)
    for name in ("airfield", "bar", "cañon"):
        folder = path / name
        folder.mkdir(parents=True)
        for number in range(8):
            colour = (colours.randrange(256), colours.randrange(256), colours.randrange(256))
            suffix, kind = ("png", "PNG") if number == 5 else ("jpg", "JPEG")
            Image.new("RGB", (16, 16), colour).save(folder / f"{number}.{suffix}", kind)


def make(raw: Raw, out: Path, *more: object) -> Made:
    """Prepare a raw set once, undisturbed."""
    result = Cli()(*raw.command(out, *more))
    assert result.code == 0, result
    assert leftovers(out) == []
    return Made(raw, out, hashes(out))


@pytest.fixture(scope="session")
def cli() -> Cli:
    return Cli()


def shared(factory: pytest.TempPathFactory, name: str, make_it: Callable[[Path], _Thing]) -> _Thing:
    """What ``make_it(directory)`` returned to the first of pytest-xdist's workers that asked.

    No test changes what all of them read.
    """
    place = factory.getbasetemp()
    place = place.parent if "PYTEST_XDIST_WORKER" in os.environ else place
    kept = place / f"{name}.pickle"
    with (place / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            shutil.rmtree(place / name, ignore_errors=True)  # of a worker that failed
            (place / name).mkdir()
            kept.write_bytes(pickle.dumps(make_it(place / name)))
    found: _Thing = pickle.loads(kept.read_bytes())
    return found


def made_once(
    name: str, write: Callable[[Path], object], *options: str, dataset: str = "imagenet"
) -> Any:
    """A fixture: a raw set that ``write`` has written, and what comes out with these options."""

    def make_it(path: Path) -> Made:
        write(path / "raw")
        return make(Raw(path / "raw", options, dataset), path / "out")

    @pytest.fixture(scope="session", name=name)
    def fixture(tmp_path_factory: pytest.TempPathFactory) -> Made:
        return shared(tmp_path_factory, name, make_it)

    return fixture


# 24 training and 6 validation images of 16x16 in 6 and 2 shards; 0.2 s a run.
tiny = made_once(
    "tiny",
    lambda raw: write_tiny_raw(raw, classes=3, images=8, validation=6),
    *("--num_shards", "train=6,validation=2", "--workers", "1"),
)
# A small made-up ChestX-ray14 as it is published, in 4 + 2 + 3 shards.
radiographs = made_once(
    "radiographs",
    write_radiographs,
    *("--num_shards", "train=4,validation=2,test=3", "--validation_fraction", "0.3"),
    *("--workers", "1"),
    dataset="chestxray14",
)
# 24 images in class folders, cut at random, in 3 + 2 shards.
folders = made_once(
    "folders",
    write_folders,
    *("--num_shards", "train=3,test=2", "--fractions", "train=0.7,test=0.3", "--workers", "1"),
    dataset="folder",
)
# 32 + 8 photograph-like images in the original archives, with a CMYK JPEG and a PNG.
photos = made_once(
    "photos",
    lambda raw: synthesize_imagenet(raw, classes=4, images_per_class=8, validation_images=8),
    *("--num_shards", "train=5,validation=2"),
)


Shelf = Callable[..., Made]


def shelf_of(made: Made, directory: Path) -> Shelf:
    """A raw set in every format: ``shelf(format, *options)``; each is made when first asked for."""
    shelf: dict[tuple[str, ...], Made] = {}

    def take(name: str, *more: object) -> Made:
        chosen = (*FORMATS[name], *map(str, more))
        if chosen not in shelf:
            options = (*chosen, "--index_dir", str(directory / "index"))
            raw = replace(made.raw, options=options)
            shelf[chosen] = make(raw, directory / str(len(shelf)), "--workers", 1)
        return shelf[chosen]

    return take


@pytest.fixture(scope="session")
def shelf(tiny: Made, tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    """The tiny set in every format, with as many shards as the format likes: one a split."""
    return shelf_of(tiny, tmp_path_factory.mktemp("shelf"))


@pytest.fixture(scope="session")
def spoilt(tmp_path_factory: pytest.TempPathFactory) -> Raw:
    """12 + 4 images in a tree, and 4 damaged ones."""
    few: Any = {"classes": 3, "images_per_class": 4, "validation_images": 4, "defects": True}

    def make_it(path: Path) -> Raw:
        synthesize_imagenet(path / "raw", layout="tree", **few)
        return Raw(path / "raw", ("--num_shards", "train=3,validation=1", "--workers", "2"))

    return shared(tmp_path_factory, "spoilt", make_it)


@pytest.fixture(scope="session", autouse=True)
def _packages_are_looked_up_once() -> Iterator[None]:
    """Whose entry points and versions there are is kept while no package comes or goes.

    A small command takes a third of its time for that, among hundreds of packages.
    """
    kept: dict[object, Any] = {}

    def keeping(find: Callable[..., Any]) -> Callable[..., Any]:
        def found(*words: str, **options: str) -> Any:
            key = (find, words, *options.items(), *map(_changed, sys.path))
            if key not in kept:
                kept[key] = find(*words, **options)
            return kept[key]

        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dataprep.cli.entry_points", keeping(entry_points))
        patch.setattr(plugins, "installed", keeping(plugins.installed))
        patch.setattr(import_module("dataprep.images.prepare"), "version", keeping(version))
        yield


def _changed(path: str) -> tuple[str, int]:
    try:
        return path, Path(path).stat().st_mtime_ns
    except OSError:
        return path, 0


@pytest.fixture(autouse=True)
def _no_debug(monkeypatch: pytest.MonkeyPatch) -> None:
    """`--debug` sets this for worker processes; it must not reach the next test."""
    monkeypatch.setenv("DATAPREP_DEBUG", "")
    monkeypatch.delenv("DATAPREP_DEBUG")
