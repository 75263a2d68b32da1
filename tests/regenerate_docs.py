"""Write the commands' help into docs/commands.md: ``python -m tests.regenerate_docs``."""

from __future__ import annotations

from pathlib import Path

import click

from dataprep.cli import command
from dataprep.cli.help import HELP_ALL

PAGE = Path(__file__).parent.parent / "docs" / "commands.md"

_HEAD = """# Commands

Made from the commands' own `--help` by `python -m tests.regenerate_docs`; a test compares them.
Every long option may be written with `_` or with `-`.
"""


def page() -> str:
    """The whole page."""
    context = click.Context(command, info_name="dataprep", **command.context_settings)
    return _HEAD + "".join(_sections(context))


def _sections(context: click.Context) -> list[str]:
    found = context.command
    sections = [f"\n## {context.command_path}\n\n```\n{found.get_help(context)}\n```\n"]
    if isinstance(found, click.Group):
        for name in found.list_commands(context):
            sub = found.get_command(context, name)
            if sub is not None:
                inner = click.Context(sub, context, name, **command.context_settings)
                inner.max_content_width = 100
                inner.terminal_width = 100
                inner.meta[HELP_ALL] = True
                sections += _sections(inner)
    return sections


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
