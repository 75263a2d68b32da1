"""``python -m benchmarks QUESTION``: measures what a question asks, and prints a table.

The table is Markdown; docs/performance.md says what came. Both sides of a ratio are measured in
turn in the same minutes; absolute figures are of this machine only.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks import (
    browsing,
    feed,
    formats,
    peers,
    reading,
    remote,
    scaling,
    scan,
    staging,
    startup,
)
from benchmarks.measure import ROOT, CannotRunError, CommandFailedError, Setting, describe
from benchmarks.tables import Row, Sheet, table

QUESTIONS: dict[str, Callable[[Setting], Sequence[Row | Sheet]]] = {
    "startup": startup.measure,
    "scaling": scaling.measure,
    "peers": peers.measure,
    "formats": formats.measure,
    "scan": scan.measure,
    "reading": reading.measure,
    "feed": feed.measure,
    "staging": staging.measure,
    "remote": remote.measure,
    "browse": browsing.measure,
}
_WORK = "dataprep-benchmarks"


def main(arguments: Sequence[str] | None = None) -> int:
    """Answer what was asked, or every question.

    Returns:
        0, or 1 if a program failed. A target that is missed is a figure, not a failure, and so
        is a benchmark that lacks something.
    """
    options = _parse(arguments)
    signal.signal(signal.SIGTERM, _terminated)
    failed = False
    with _work_directory(options.work, keep=options.keep) as work:
        setting = Setting(
            work=work,
            images=options.images,
            repeat=options.repeat or (1 if options.quick else 3),
            quick=options.quick,
            # Programs start elsewhere. Not resolved: a link tells Python its environment.
            peers=options.peers.absolute(),
            training=options,
        )
        described = describe(setting)
        for name in options.questions or QUESTIONS:
            try:
                rows = QUESTIONS[name](setting)
            except CannotRunError as error:
                rows = [Row(name, problem=str(error))]
            except CommandFailedError as error:
                failed = True
                setting.say(f"{name}: {error}\n{error.output}")
                rows = [Row(name, problem=str(error))]
            print(table(name, rows, judged=not options.quick), flush=True)
    print("\n".join(f"- {name}: {value}" for name, value in described.items()))
    return int(failed)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        epilog="\n".join(f"  {name:12} {_asks(answer)}" for name, answer in QUESTIONS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "questions", nargs="*", metavar="QUESTION", help="of those below [default: all, for hours]"
    )
    parser.add_argument(
        "--images", type=Path, help="directory of class directories of JPEG files [default: drawn]"
    )
    parser.add_argument("--repeat", type=int, help="pairs or rounds of measurements [default: 3]")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: does everything run?")
    parser.add_argument(
        "--peers",
        type=Path,
        default=ROOT / ".venv-peers",
        help="environments of other tools, by `make peers` [default: .venv-peers]",
    )
    parser.add_argument(
        "--work", type=Path, help="where inputs and outputs go, 25 GB [default: temporary]"
    )
    parser.add_argument("--keep", action="store_true", help="keep the inputs for the next time")
    feed.add_options(parser)
    options = parser.parse_args(arguments)
    unknown = [name for name in options.questions if name not in QUESTIONS]
    if unknown:
        parser.error(f"no question {unknown[0]!r}; there are {', '.join(QUESTIONS)}")
    if options.images is not None and not options.images.is_dir():
        parser.error(f"--images {options.images} is not a directory")
    if options.repeat is not None and options.repeat < 1:
        parser.error("--repeat must be at least 1")
    return options


def _asks(answer: Callable[[Setting], Sequence[Row | Sheet]]) -> str:
    """The question: the first line of its module."""
    return (sys.modules[answer.__module__].__doc__ or "").partition("\n")[0]


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
