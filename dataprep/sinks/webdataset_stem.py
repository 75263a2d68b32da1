"""What a sample is called inside a WebDataset archive.

Readers take members for one sample if their names are equal up to the first dot behind the last
slash, and are adjacent (webdataset, DALI) or anywhere in the shard (tools that unpack, or that make
a database of it). The index of DALI's ``wds2idx`` separates its fields by blanks, and takes the
names from GNU tar's listing, which escapes what is not ASCII. So a stem

* is the key without its last extension, other dots in its last component replaced by ``_``;
* is printable ASCII without blanks and without what file systems forbid: of any other character,
  the UTF-8 bytes are written ``%E5``;
* is relative, without empty components, ``.`` and ``..``; nor has its first component the form
  ``__x__``, which webdataset skips as metadata;
* fits a ustar header: a longer one is cut, and gets a digest of the key;
* is unique in its shard: the second of two equal ones gets a digest of its key.

It is for people and tools; the key itself is in the sample's ``.json``.
"""

from __future__ import annotations

import hashlib
import re
from itertools import count

from dataprep.sinks.tar_framing import NAME_LIMIT, PREFIX_LIMIT

_UNSAFE = re.compile(rb"[^A-Za-z0-9._+=@,~^%#!$&'()\[\]{};-]")
_LONGEST_EXTENSION = len(".json")
_DIGEST_CHARACTERS = 16
_BASE_LIMIT = NAME_LIMIT - _LONGEST_EXTENSION


class Stems:
    """Names the samples of one shard.

    Memory: a 64-bit digest of every stem given, about 100 bytes in Python.
    """

    def __init__(self) -> None:
        self._taken: set[int] = set()

    def name(self, key: str) -> str:
        """The stem for the next sample."""
        directory, base = _split(key)
        stem = directory + base
        if len(directory) > PREFIX_LIMIT or len(base) > _BASE_LIMIT:
            directory = _cut(directory)
            stem = directory + _marked(base, _digest(key))
        attempts = count()
        while (taken := _number(stem)) in self._taken:
            attempt = next(attempts)
            # Keys are unique in a split; what else comes here would be a collision of digests.
            stem = _cut(directory) + _marked(base, _digest(f"{attempt}/{key}" if attempt else key))
        self._taken.add(taken)
        return stem


def _split(key: str) -> tuple[str, str]:
    """The directories with their last slash, or nothing; and the name without its extension."""
    *directories, last = [part for part in key.split("/") if part] or [""]
    base, dot, _ = last.rpartition(".")
    base = _safe(base if dot and base else last).replace(".", "_") or "_"
    if not directories:
        return "", base
    directories = [
        _safe(part) if part.strip(".") else part.replace(".", "%2E") for part in directories
    ]
    if directories[0].startswith("__") and directories[0].endswith("__"):
        directories[0] = "%5F" + directories[0][1:]
    return "/".join(directories) + "/", base


def _safe(text: str) -> str:
    data = text.encode("utf-8", "surrogateescape")
    return _UNSAFE.sub(lambda match: b"%%%02X" % match[0][0], data).decode("ascii")


def _cut(directory: str) -> str:
    """As many whole components from the front as fit."""
    if len(directory) <= PREFIX_LIMIT:
        return directory
    return directory[: directory.rfind("/", 0, PREFIX_LIMIT) + 1]


def _marked(base: str, digest: str) -> str:
    return f"{base[: _BASE_LIMIT - len(digest) - 1]}-{digest}"


def _digest(key: str) -> str:
    data = key.encode("utf-8", "surrogateescape")
    return hashlib.sha256(data).hexdigest()[:_DIGEST_CHARACTERS]


def _number(stem: str) -> int:
    return int.from_bytes(hashlib.blake2b(stem.encode("ascii"), digest_size=8).digest(), "big")
