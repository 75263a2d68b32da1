"""Lines that load a data set, with its own paths and labels.

They are the blocks of ``loaders.j2``, which begin those in docs/reading.md and docs/training.md; a
test compares them, and runs them for every format.
"""

from __future__ import annotations

import glob
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from dataprep.errors import UsageError
from dataprep_schemas.manifest import Manifest

if TYPE_CHECKING:
    import jinja2


def templates(*, autoescape: bool) -> jinja2.Environment:
    """The templates beside this file.

    Raises:
        UsageError: Jinja2 is not installed.
    """
    try:
        import jinja2
        import matplotlib as mpl  # noqa: F401  # of the same extra
    except ModuleNotFoundError as error:
        raise UsageError(
            "a report needs matplotlib and Jinja2; install dataprep-shards[report]"
        ) from error
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("dataprep.review", "."),
        autoescape=autoescape,  # noqa: S701  # code is no HTML; the page escapes it
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["literal"] = _literal
    return environment


def loaders(manifest: Manifest) -> Iterator[tuple[str, str]]:
    """(trainer, lines) for each that reads this format."""
    split = "train" if "train" in manifest.splits else next(iter(manifest.splits))
    paths = [file.path for file in manifest.splits[split].shards[0].files]
    index = next((path for path in paths if path.endswith(".idx")), paths[-1])
    template = templates(autoescape=False).get_template("loaders.j2")  # code, not HTML
    context = template.new_context(
        {
            "split": split,
            "first": f"OUT/{paths[0]}",
            "folder": f"OUT/{PurePosixPath(paths[0]).parent}",
            "pattern": f"OUT/{_pattern(paths[0])}",
            "index": f"OUT/{index}",
            "index_pattern": f"OUT/{_pattern(index)}",
            "classes": len(manifest.classes),
            "multilabel": manifest.examples.multilabel,
        }
    )
    for name, block in template.blocks.items():
        sink, _, trainer = name.replace("_", "-").partition("--")
        if sink in ("any", manifest.sink.name):
            yield trainer.replace("-", " "), "".join(block(context)).strip()


def _pattern(path: str) -> str:
    """A glob of all shards: ``train/train-00000-of-00008.tar`` is ``train/train-*.tar``."""
    head, _, tail = path.rpartition("-of-")
    before = glob.escape(head.rpartition("-")[0])
    return f"{before}-*{PurePosixPath(tail).suffix}" if head else glob.escape(path)


def _literal(text: str) -> str:
    """A string of Python, for whatever a manifest says; in double quotes if it needs no escape."""
    inner = repr(text)[1:-1]
    return f'"{inner}"' if inner == text and '"' not in text else repr(text)
