"""Where the command ``dataprep`` begins: in a package whose name nobody else has.

Another distribution, for exploring tables, is called ``dataprep`` and installs a package of that
name. Where both are in one environment, each has overwritten files of the other.
"""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path

_NAME = "dataprep"  # of their distribution and its package, and of our package
_AGAIN = "pip install --force-reinstall --no-deps dataprep-shards"


def entry_point() -> int:
    """The command line, if its modules are those of this distribution; else one line."""
    if trouble := _trouble():
        sys.stderr.write(f"dataprep: error: {trouble}\n")
        return 1
    from dataprep.cli import entry_point as run

    return run()


def _trouble() -> str | None:
    """What stands in the place of our package ``dataprep``, and what to do."""
    spec = find_spec(_NAME)
    found = Path(spec.origin).resolve() if spec and spec.origin else None
    try:
        theirs = distribution(_NAME)
    except PackageNotFoundError:
        pass
    else:
        # Further back on the path it is in nobody's way.
        if found == Path(str(theirs.locate_file("dataprep/__init__.py"))).resolve():
            return (
                f"the distribution {_NAME} {theirs.version} has a package `dataprep`, too, in "
                f"{found.parent}, and it and dataprep-shards, this program, overwrite each other's "
                f"files; keep one: pip uninstall --yes {_NAME} && {_AGAIN}"
            )
    if found is None or not (found.parent / "cli" / "__init__.py").is_file():
        return (
            f"`import dataprep` finds {found or 'no __init__.py'}, not this program's; "
            f"{_AGAIN}, or take the other off PYTHONPATH"
        )
    return None
