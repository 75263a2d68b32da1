"""The options in one spelling, so that an index is used again however they were written."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Final

from dataprep.datasets.folder.options import OPTIONS, FolderOptions
from dataprep.datasets.splitting import Cut, parse_seed, share_text

_FILES: Final = frozenset(option.name for option in OPTIONS if option.file)
# The form of the raw data must not show in the manifest; `Folder.fingerprint` has the format.
_LEFT_OUT: Final = _FILES | {"listing_format"}
_SAME_AS_WITHOUT: Final = {"split_column": "split", "size_column": "size"}


def one_spelling(options: Mapping[str, str], wanted: FolderOptions) -> dict[str, str]:
    """What shapes the index, each value written in one way only; no paths of files.

    Args:
        options: as the user wrote them, defaults included.
        wanted: what `dataprep.datasets.folder.options.parse_options` made of them.
    """
    config = {
        name: value
        for name, value in options.items()
        if name not in _LEFT_OUT and value != _SAME_AS_WITHOUT.get(name)
    }
    config["split_name"] = wanted.split_name
    config["split_seed"] = str(parse_seed("split_seed", options["split_seed"]))
    config.pop("inside", None)
    if wanted.inside:
        config["inside"] = wanted.inside
    if wanted.cut is not None:
        config["fractions"] = _fractions(wanted.cut, wanted.splits)
    return config


def _fractions(cut: Cut, splits: tuple[str, ...]) -> str:
    shares = dict(cut.shares)
    shares[cut.rest] = 1 - sum(shares.values(), Fraction(0))
    return ",".join(f"{split}={share_text(shares[split])}" for split in splits)
