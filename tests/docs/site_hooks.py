"""Hooks of mkdocs for a site without the repository and without a network."""

from __future__ import annotations

import re


def on_page_markdown(markdown: str, **_: object) -> str:
    """Links to sources beside docs/, which the site does not have, become their names."""
    return re.sub(r"(?<!!)\[([^\]]+)\]\(\.\./([^)]+)\)", _named, markdown)


def on_post_page(output: str, **_: object) -> str:
    """Material's plugin offline takes a script from elsewhere; docs/offline.js stands for it."""
    return output.replace("https://unpkg.com/iframe-worker/shim", "offline.js")


def on_post_template(output_content: str, **_: object) -> str:
    """The same of pages that are no document's: 404.html."""
    return on_post_page(output_content)


def _named(link: re.Match[str]) -> str:
    text, path = link.groups()
    return f"`{path}`" if text.strip("`") == path else f"{text} (`{path}`)"
