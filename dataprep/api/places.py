"""Where a data set is: in a directory, or in a bucket and as far as needed in this node's cache."""

from __future__ import annotations

import os
from pathlib import Path

from dataprep.errors import UsageError
from dataprep.options import StrPath, byte_size
from dataprep.remote.store import address_of


def not_empty(place: StrPath) -> StrPath:
    """A path as it is; an empty one would be the current directory.

    Raises:
        UsageError: it is empty.
    """
    if not os.fspath(place):
        raise UsageError("an argument is empty; is a variable not set?")
    return place


def located(
    place: StrPath, cache: StrPath | None = None, cache_bytes: int | str | None = None
) -> Path:
    """The directory that stands for a data set: itself, or that in a cache of one in a bucket.

    Args:
        cache: see `dataprep.open`.
        cache_bytes: likewise.

    Raises:
        DatasetError: no whole data set is in the bucket.
        RemoteError: the store does not answer, or refuses.
        UsageError: a path is empty; or `cache_bytes` is no size, or smaller than a shard.
    """
    address = address_of(not_empty(place))
    if address is None:
        return Path(place)
    from dataprep.remote.cache import cached  # late: it loads more

    try:
        most = None if cache_bytes is None else byte_size(cache_bytes)
    except ValueError as error:
        raise UsageError(f"cache_bytes: {error}") from error
    return cached(address, None if cache is None else Path(not_empty(cache)), most)
