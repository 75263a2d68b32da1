"""The command line: a small module a command, or a few alike; each parses, calls and prints.

Exit codes: 0 done; 1 error; 2 wrong usage; 3 more rejected images than ``--max_bad`` allows; 4 a
node has too little space for ``dataprep stage``; 5 ``lint --fail_on`` found something; 130,
143 and 129 stopped by Ctrl-C, SIGTERM and SIGHUP.
"""

from __future__ import annotations

import errno
import gc
import importlib
import logging
import os
import stat
import sys
import threading
import traceback
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import entry_points

import click

from dataprep.api.parameters import meant
from dataprep.api.progress import forget_stdout
from dataprep.cli.output import open_streams, say
from dataprep.errors import DataprepError, UsageError
from dataprep.system.job_limits import one_thread_each
from dataprep.system.messages import refusal, refuse_secrets
from dataprep.version import __version__

_HELP = ["-h", "--help"]
_LONGEST = 500  # characters of a message
_STOPPED = 130  # 128 + SIGINT, as shells have it

# Imported only when used, so that `dataprep --help` is quick and loads neither Beam nor numpy.
_DATASETS = {
    "imagenet": "Prepare ImageNet, the raw ILSVRC2012 images.",
    "chestxray14": "Prepare NIH ChestX-ray14: radiographs, multi-label, split by patient.",
    "folder": "Prepare any image set: class folders, archives, or a list of files.",
    "shards": "Prepare what others have packed: WebDataset, Parquet, TFRecord, RecordIO, MDS.",
}
_COMMANDS = {
    "browse": "Look at a data set in a browser, ask it, and mark images.",
    "card": "Write a card for catalogues: Croissant and the Hugging Face hub.",
    "compact": "Rebalance a data set extended with --append.",
    "convert": "Convert a finished data set to another format.",
    "diff": "Compare two data sets: keys, labels and images.",
    "doctor": "Print versions, storage and limits for a problem report.",
    "hook": "Print a batch script that stages a data set: Slurm, PBS, LSF.",
    "inspect": "Show what is in a data set, in a shard or in raw data.",
    "lint": "Find leaks between splits, copies, odd classes and odd images.",
    "preview": "Show images of a data set in the terminal.",
    "push": "Copy a data set into a bucket: S3, Google Cloud, Azure.",
    "report": "Write an HTML page about a data set: numbers, images, findings.",
    "select": "Choose, relabel, re-split or merge data sets, without the raw data.",
    "sinks": "List the installed formats.",
    "sql": "Ask one or more data sets in SQL.",
    "stage": "Copy a data set to every node's local storage, checked on the way.",
    "status": "Show the state of a running, dead or finished job.",
    "stripe": "Set the Lustre layout of a directory before it is filled.",
    "synthesize": "Generate a small raw data set to try things with.",
    "verify": "Check a finished data set against its manifest.",
}
# Where a command is, if not in a module of its own name.
_MODULES = {
    **dict.fromkeys(("compact", "convert", "select"), "sets"),
    **dict.fromkeys(("browse", "card", "lint", "preview", "report"), "review"),
    **dict.fromkeys(("diff", "status", "verify"), "checks"),
    "sinks": "doctor",
    "sql": "inspect",
    **dict.fromkeys(("hook", "push", "stage"), "staging"),
}


class _LazyGroup(click.Group):
    """A group that knows its commands' names and imports them one at a time."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*_datasets(), *_COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _COMMANDS:
            module = importlib.import_module(f"dataprep.cli.{_MODULES.get(cmd_name, cmd_name)}")
            found: click.Command = getattr(module, f"{cmd_name}_command")
        elif cmd_name in _datasets():
            from dataprep.cli.sets import dataset_command

            found = dataset_command(cmd_name)
        else:
            return None
        # click keeps the first help option that it makes, with whatever names it had then.
        found.context_settings.setdefault("help_option_names", _HELP)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        normal = name if ctx.token_normalize_func is None else ctx.token_normalize_func(name)
        known = self.list_commands(ctx)
        if not name.startswith("-") and not {name, normal} & {*known}:
            raise click.UsageError(f"No such command {name!r}{meant(name, known)}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Data sets"):
            formatter.write_dl(list(_datasets().items()))
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


def _datasets() -> dict[str, str]:
    """Ours, and those of plugins whose names are free, each with a line for the help."""
    found = dict(_DATASETS)
    # Not through dataprep.plugins: `dataprep --help` is quick.
    for point in sorted(entry_points(group="dataprep.datasets"), key=lambda point: point.name):
        if point.name not in found and point.name not in _COMMANDS:
            package = "a plugin" if point.dist is None else point.dist.name
            found[point.name] = f"Prepare the data set that {package} provides."
    return found


@click.command(
    cls=_LazyGroup,
    context_settings={
        "help_option_names": _HELP,
        "max_content_width": 100,
        # Every long option may be written with `_` or with `-`.
        "token_normalize_func": lambda token: token.replace("-", "_"),
    },
)
@click.version_option(__version__, prog_name="dataprep")
@click.option("--debug", is_flag=True, help="Show the traceback of an error (with any command).")
def command(debug: bool) -> None:  # `main` takes it out; here for the help
    """Turn raw image archives into verified, shuffled, sharded record files.

    Long options may be written with _ or with -.

    Exit codes: 0 done; 1 error; 2 wrong usage; 3 more rejected images than --max_bad allows; 4
    too little space on a node (stage); 5 findings of --fail_on (lint); 130, 143 or 129 stopped by
    Ctrl-C, SIGTERM or SIGHUP.
    """


def entry_point() -> int:
    """`main`, for a process of its own."""
    open_streams()
    gc.set_threshold(100_000)  # importing makes many objects, and no garbage to look for
    one_thread_each(os.environ)  # before anything imports numpy
    os.umask(os.umask(0) | stat.S_IWOTH)  # whatever the caller's: others may not write our state
    if "--debug" not in sys.argv:
        # When a run is cut short, threads of Beam's complain for pages that nobody can act on.
        threading.excepthook = lambda arguments: None
    code = main()
    if code == 0:
        with suppress(OSError):
            sys.stderr.flush()
        gc.freeze()  # or all of them are looked through at the end, a quarter of a second
        return code
    # At its end Python waits for threads, and those of a run that was cut short may wait for ever.
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(code)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; every expected error becomes one line and an exit code.

    Args:
        arguments: the words after the program's name; those of the process by default.

    Returns:
        The exit code.
    """
    words, debug = _without_debug(list(sys.argv[1:] if arguments is None else arguments))
    # Beam warns of optional packages at import; what matters to the user is raised instead.
    logging.basicConfig(level=logging.WARNING if debug else logging.CRITICAL)
    if debug:
        os.environ["DATAPREP_DEBUG"] = "1"  # worker processes of the engine look at it
    try:
        _refuse_words(words)
        command.main(words, prog_name="dataprep", standalone_mode=False)
    except click.ClickException as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # click has it since 8.2
            say(error.format_message(), err=True)
            return UsageError.exit_code
        return _fail(_message(error).replace("\n", " "), UsageError(), debug=False)
    except click.exceptions.Exit as done:
        return done.exit_code
    except DataprepError as error:
        return _fail(str(error), error, debug)
    except (KeyboardInterrupt, click.Abort) as error:
        return _fail("stopped", error, debug)
    except BrokenPipeError:  # `dataprep inspect … | head`
        forget_stdout()
        return DataprepError.exit_code
    except Exception as error:  # noqa: BLE001  # the last resort: one line, not a traceback
        what = f"unexpected {type(error).__name__}: {' '.join(str(error).split())}"
        if isinstance(error, OSError) and error.filename is not None:
            shorter = "; give a shorter path" if error.errno == errno.ENAMETOOLONG else ""
            what = f"{error.filename}: {refusal(error)}{shorter}"
        return _fail(what + ("" if debug else "; add --debug for the details"), error, debug)
    return 0


def _without_debug(words: list[str]) -> tuple[list[str], bool]:
    """Take ``--debug`` out, wherever it stands before ``--``."""
    end = words.index("--") if "--" in words else len(words)
    own = [word for word in words[:end] if word != "--debug"]
    return own + words[end:], len(own) < end


def _refuse_words(words: Sequence[str]) -> None:
    """An empty path would be the current directory; a secret would be kept with the job."""
    own = words[: words.index("--")] if "--" in words else words
    for word in own:
        refuse_secrets(word)
    if any(word == "" or (word.startswith("--") and word.endswith("=")) for word in own):
        raise UsageError("an argument is empty; is a variable not set?")


def _fail(text: str, error: BaseException, debug: bool) -> int:
    if debug:
        traceback.print_exception(error)
    if len(text) > _LONGEST:  # what was found comes first, what to do about it last
        text = f"{text[: _LONGEST // 2]} […] {text[-_LONGEST // 2 + 5 :]}"
    say(f"dataprep: error: {text}", err=True)
    stopped = isinstance(error, KeyboardInterrupt | click.Abort)
    return _STOPPED if stopped else getattr(error, "exit_code", DataprepError.exit_code)


def _message(error: click.ClickException) -> str:
    """Click's own, and where help is; of an unknown option, with the one probably meant."""
    context, text = getattr(error, "ctx", None), error.format_message()
    if isinstance(error, click.NoSuchOption) and context is not None:
        names = [name[2:] for option in context.command.params for name in option.opts]
        text = f"No such option {error.option_name}{meant(error.option_name, names)}"
    end = "" if text.endswith((".", "?")) else "."
    return f"{text}{end} See `{context.command_path if context else 'dataprep'} --help`."
