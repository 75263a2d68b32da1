"""The options that say how files are laid out on Lustre."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from dataprep.api.parameters import Decorated, options

if TYPE_CHECKING:
    from dataprep.system.lustre.rules import Striping

_RESERVED_POOLS = frozenset({"ignore", "inherit", "none"})


def check_stripe_size(context: click.Context, option: click.Parameter, size: int) -> int:
    """Refuse what Lustre does: a stripe is a multiple of 64 KiB, less than 4 GiB."""
    from dataprep.system.lustre.rules import SIZE_LIMIT, SIZE_UNIT

    if size >= SIZE_LIMIT or size % SIZE_UNIT:
        raise click.BadParameter(
            f"{size:,} bytes: a stripe is a multiple of 64 KiB and less than 4 GiB, such as 1MiB "
            "or 4MiB; MB are powers of 1000.",
            context,
            option,
        )
    return size


def stripe_count(*words: str) -> Callable[..., int | str | None]:
    """One of the words, or a number of stripes; -1 for all targets."""

    def check(
        context: click.Context, option: click.Parameter, text: str | None
    ) -> int | str | None:
        from dataprep.system.lustre.rules import MOST_STRIPES

        if text is None or text in words:
            return text
        if not re.fullmatch(r"-1|[1-9]\d{0,3}", text, re.ASCII) or int(text) > MOST_STRIPES:
            raise click.BadParameter(
                f"{text!r} is none of {', '.join(words)}, 1 to {MOST_STRIPES} and -1 (all "
                "targets).",
                context,
                option,
            )
        return int(text)

    return check


def check_pool(context: click.Context, option: click.Parameter, name: str | None) -> str | None:
    """Refuse what Lustre cannot have as the name of a pool."""
    from dataprep.system.lustre.rules import LONGEST_POOL_NAME

    if name is None:
        return None
    if len(name) > LONGEST_POOL_NAME or not re.fullmatch(r"[A-Za-z0-9][\w.-]*", name, re.ASCII):
        raise click.BadParameter(
            f"{name!r} is no name of a pool: at most {LONGEST_POOL_NAME} letters and digits.",
            context,
            option,
        )
    if name in _RESERVED_POOLS:
        raise click.BadParameter(f"{name!r} is reserved by Lustre.", context, option)
    return name


LIMITS: Callable[[Decorated], Decorated] = options(
    click.option(
        "--lustre_max_stripes",
        type=click.IntRange(min=1),
        metavar="N",
        help="Never more stripes a file than this, e.g. the site's limit.",
    ),
    click.option(
        "--lustre_pool",
        metavar="NAME",
        callback=check_pool,
        help="Of the targets to use, where the site has several, e.g. flash.",
    ),
)

LUSTRE: Callable[[Decorated], Decorated] = options(
    click.option(
        "--lustre_stripe",
        callback=stripe_count("auto", "pfl", "off"),
        metavar="[auto|COUNT|pfl|off]",
        help="On Lustre, the layout of the directories that are written: auto: by the size of the "
        "files, unless the site has a progressive layout; COUNT: so many stripes, -1: on all "
        "targets; pfl: a progressive layout; off: none is set. [default: auto, but a layout "
        "that somebody chose is kept]",
    ),
    LIMITS,
)


def chosen_striping(values: Mapping[str, Any]) -> Striping:
    """What `LUSTRE` says; by default automatic, and silent where there is no Lustre."""
    from dataprep.system.lustre.rules import Striping

    count, most, pool = (
        values[name] for name in ("lustre_stripe", "lustre_max_stripes", "lustre_pool")
    )
    asked = (count, most, pool) != (None, None, None)
    return Striping(count=count or "auto", most=most, pool=pool or "", asked=asked)
