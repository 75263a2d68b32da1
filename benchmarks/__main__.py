"""``python -m benchmarks [NAME ...]``: runs the benchmarks and prints one table."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks import (
    engines,
    filters,
    im2rec,
    listing,
    loops,
    machine,
    memory,
    passing,
    peers,
    radiographs,
    reading,
    resize,
    review,
    scan,
    sinks,
    staging,
    staging_nodes,
    startup,
    table,
    tpu_loop,
)
from benchmarks.measure import CommandFailedError
from benchmarks.results import Row
from benchmarks.setting import ROOT, CannotRunError, Setting

_BENCHMARKS: dict[str, Callable[[Setting], list[Row]]] = {
    "startup": startup.measure,
    "memory": memory.measure,
    "scan": scan.measure,
    "listing": listing.measure,
    "passing": passing.measure,
    "tpu_loop": tpu_loop.measure,
    "filters": filters.measure,
    "resize": resize.measure,
    "review": review.measure,
    "sinks": sinks.measure,
    "peers": peers.measure,
    "reading": reading.measure,
    "radiographs": radiographs.measure,
    "staging": staging.measure,
    "nodes": staging_nodes.measure,
    "engines": engines.measure,
}
_SAMPLE = ROOT.parent / "shared" / "data" / "imagenet-sample"
_WORK = "dataprep-benchmarks"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for.

    Returns:
        0, or 1 if a program failed. A target that is missed is a figure, not a failure, and so
        is a benchmark that lacks something.
    """
    options = _parse(arguments)
    signal.signal(signal.SIGTERM, _terminated)
    with _work_directory(options.work, keep=options.keep) as work:
        setting = Setting(
            work=work,
            images=options.images,
            repeat=options.repeat or (1 if options.quick else 3),
            quick=options.quick,
            mxnet_python=options.mxnet_python,
            mds_python=options.mds_python,
        )
        described = machine.describe(setting)
        rows, failed = _run(options.names or list(_BENCHMARKS), setting)
    judged = not options.quick
    print(table.text(rows, described, judged=judged))
    if options.markdown:
        options.markdown.write_text(table.markdown(rows, described, judged=judged))
    if options.json:
        options.json.write_text(table.to_json(rows, described, judged=judged))
    return int(failed)


def _run(names: Sequence[str], setting: Setting) -> tuple[list[Row], bool]:
    rows: list[Row] = []
    failed = False
    for name in names:
        try:
            rows += _BENCHMARKS[name](setting)
        except CannotRunError as error:
            rows.append(Row(name, problem=str(error)))
        except CommandFailedError as error:
            failed = True
            setting.say(f"{name}: {error}\n{error.output}")
            rows.append(Row(name, problem=str(error)))
    return rows, failed


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"of {', '.join(_BENCHMARKS)} [default: all]"
    )
    parser.add_argument(
        "--images",
        type=Path,
        default=_SAMPLE if _SAMPLE.is_dir() else None,
        help="directory of class directories of JPEG files [default: ../shared/data/"
        "imagenet-sample where there is one, else made-up images]",
    )
    parser.add_argument("--repeat", type=int, help="pairs or rounds of measurements [default: 3]")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: does everything run?")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every value here")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table here")
    for option, variable, library in (
        ("--mxnet-python", im2rec.VARIABLE, "mxnet 1.9.1"),
        ("--mds-python", loops.MDS_VARIABLE, "mosaicml-streaming"),
    ):
        parser.add_argument(
            option,
            type=Path,
            default=Path(os.environ[variable]) if os.environ.get(variable) else None,
            help=f"for peers, reading: an interpreter with {library} [default: {variable}]",
        )
    parser.add_argument(
        "--work", type=Path, help="where inputs and outputs go, 15 GB [default: temporary]"
    )
    parser.add_argument("--keep", action="store_true", help="keep the inputs for the next time")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in _BENCHMARKS]
    if unknown:
        parser.error(f"no benchmark {unknown[0]!r}; there are {', '.join(_BENCHMARKS)}")
    if options.images is not None and not options.images.is_dir():
        parser.error("--images is not a directory")
    if options.repeat is not None and options.repeat < 1:
        parser.error("--repeat must be at least 1")
    for name in ("mxnet_python", "mds_python"):
        if getattr(options, name) is not None:
            # Programs start elsewhere. Not resolved: a link tells Python its environment.
            setattr(options, name, getattr(options, name).absolute())
    return options


def _terminated(*_: object) -> None:
    sys.exit(128 + signal.SIGTERM)  # as an exception, so that everything is cleaned up


@contextmanager
def _work_directory(given: Path | None, *, keep: bool) -> Iterator[Path]:
    """A directory of our own below the given one, so that nothing else is ever deleted."""
    work = (given or Path(tempfile.gettempdir())).resolve() / _WORK
    if given is None and not keep:
        work = Path(tempfile.mkdtemp(prefix=f"{_WORK}-"))
    work.mkdir(parents=True, exist_ok=True)
    try:
        yield work
    finally:
        if not keep:
            shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
