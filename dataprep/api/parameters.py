"""The options of a call: its groups' declarations, with the defaults of a data set and of the site.

The commands show them and the Python calls take them; what is given is settled here, once.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, replace
from typing import Any, Final

from dataprep.errors import UsageError
from dataprep.options import Option, options_of
from dataprep.system.site import login_site, site, site_file

# What other tools call what is called otherwise here.
_SYNONYMS: Mapping[str, str] = {
    "raw": "input source src",
    "out": "destination dest dst output target",
    "to": "destination dest dst output target",
    "sink": "format",
    "resize": "height image_size size width",
    "center_crop": "crop",
    "seed": "random",
    "overwrite": "force",
    "workers": "cores jobs processes threads",
    "listing": "csv labels",
    # commands
    "folder": "imagefolder images",
    "verify": "check validate",
    "inspect": "info show",
    "diff": "compare",
    "stage": "copy",
    "hook": "sbatch slurm",
}

_LUSTRE: Final = ("lustre_stripe", "lustre_pool")  # of which only the help says so
_OF_SITE: Final = ("bandwidth", "runner", "dask_slurm", *_LUSTRE)


@dataclass(frozen=True, slots=True)
class Options:
    """The options of one call.

    Attributes:
        call: what messages call it, ``dataprep imagenet``.
        table: in the order of the help.
    """

    call: str
    table: tuple[Option, ...]

    def settle(self, given: Mapping[str, object]) -> dict[str, Any]:
        """The value of every option by its name: what was given, read, or its default.

        Args:
            given: None is as good as nothing.

        Raises:
            UsageError: there is no such option, it cannot have this value, or one is missing.
        """
        by_name = {option.name: option for option in self.table}
        if unknown := [name for name in given if name not in by_name]:
            raise UsageError(
                f"{self.call} has no option {unknown[0]!r}{meant(unknown[0], by_name)}"
            )
        values: dict[str, Any] = {}
        for name, option in by_name.items():
            if given.get(name) is None:
                if option.default is MISSING:
                    hint = " / ".join(f"'{each}'" for each in option.names)
                    raise UsageError(f"{self.call}: Missing option {hint}")
                values[name] = option.default
                continue
            try:
                values[name] = option.read(given[name])
            except UsageError as error:
                raise UsageError(f"{self.call}: {error}") from error
        return values


def options(call: str, *groups: type, defaults: Mapping[str, Any] | None = None) -> Options:
    """The options of groups, sorted into the sections of the help.

    Args:
        call: what messages call it.
        defaults: others than those declared.

    Raises:
        UsageError: the site's file is not what it should be.
    """
    table: dict[str, Option] = {}
    for group in groups:
        table |= {each.name: each for each in options_of(group)}
    found = [
        replace(each, default=(defaults or {}).get(each.name, each.default))
        for each in table.values()
    ]
    found.sort(key=lambda each: SECTIONS.index(each.section))
    return Options(call, tuple(map(_of_site, found)))


SECTIONS: Final = ("Input", "Output", "Images", "Order", "This machine", "Cluster")
"""Of the help, in this order."""


def _of_site(option: Option) -> Option:
    """With the default that the site has for it, if it has one; the help says so."""
    value: Any = None
    if option.name in _OF_SITE:
        value = getattr(site(), option.name, None)
    elif option.name == "io_limit":
        value = getattr(login_site(), "login_io_limit", None)
    if value is None:
        return option
    try:
        default = option.read(value)
    except UsageError as error:
        said = str(error).partition(": ")[2]
        raise UsageError(f"{site_file()}, for --{option.name}: {said}") from error
    text = f"{option.help.partition(' [default')[0]} [default: {value}, by {site_file()}]"
    if option.name in _LUSTRE:
        default = option.default
    return replace(option, default=default, help=text, shown=False)


def meant(word: str, names: Iterable[str]) -> str:
    """``; did you mean …?`` with a synonym, or the name spelled most alike; or nothing."""
    known = {name.replace("-", "_"): name for name in names}
    asked = word.strip("-").replace("-", "_").lower()
    found = [name for name in known if asked in _SYNONYMS.get(name, "").split()]
    found = found or difflib.get_close_matches(asked, known, n=1)
    return f"; did you mean {known[found[0]]}?" if found else ""
