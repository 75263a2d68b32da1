"""What is staged in these tests, and a look at what has arrived."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dataprep.staging.writing import Progress
from tests.conftest import Cli, Made, Raw, Result, hashes, make, write_tiny_raw

PRIVATE = ".dataprep-stage"
SHARDS = {"train": 7, "validation": 3}
RECORDS = {"train": 28, "validation": 9}  # 4 and 3 in every shard


@dataclass(frozen=True)
class Sets:
    """A data set, and what it is when it is made anew with another seed."""

    first: Made
    anew: Made


def make_sets(path: Path) -> Sets:
    """7 + 3 shards of TFRecords, twice."""
    write_tiny_raw(path / "raw", classes=4, images=7, validation=9)
    shards = ",".join(f"{split}={count}" for split, count in SHARDS.items())
    raw = Raw(path / "raw", ("--num_shards", shards, "--workers", "1"))
    return Sets(make(raw, path / "first"), make(raw, path / "anew", "--seed", 9))


def named(source: Path, *splits: str) -> dict[str, str]:
    """The SHA-256 of every file that a manifest names, and of itself; of some splits only."""
    manifest = json.loads((source / "manifest.json").read_text())
    table = manifest["records_table"]  # of all splits together, so it comes along with any of them
    found = {"manifest.json": hashes(source)["manifest.json"], table["path"]: table["sha256"]}
    for split in splits or manifest["splits"]:
        for holder in (manifest["splits"][split], *manifest["splits"][split]["shards"]):
            found |= {file["path"]: file["sha256"] for file in holder.get("files", ())}
    return found


def arrived(to: Path) -> dict[str, str]:
    """The SHA-256 of every file in a target, unfinished ones too, but for staging's own."""
    found = {}
    for path in sorted(to.rglob("*")):
        name = path.relative_to(to).as_posix()
        with suppress(FileNotFoundError):  # renamed just now by one who is copying
            if path.is_file() and not name.startswith(".dataprep"):
                found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def is_sealed(to: Path) -> bool:
    """Whether staging says that the copy is whole."""
    return (to / PRIVATE / "complete.json").exists()


def partials(to: Path) -> list[str]:
    """What is unfinished among a target's files."""
    return [name for name in arrived(to) if name.endswith(".partial")]


def shards(to: Path, split: str = "train") -> list[Path]:
    """The finished shards that are there."""
    return sorted((to / split).glob(f"{split}-*-of-*"))


def records_of(to: Path, split: str) -> int:
    """How many records the shards that are there hold, by the manifest."""
    manifest = json.loads((to / "manifest.json").read_text())
    there = {path.name for path in shards(to, split)}
    return sum(
        shard["records"]
        for shard in manifest["splits"][split]["shards"]
        if Path(shard["files"][0]["path"]).name in there
    )


def times(to: Path) -> dict[str, int]:
    """When each file was written: proof of what was not copied again."""
    return {name: (to / name).stat().st_mtime_ns for name in arrived(to)}


def flip(path: Path, *, keep_time: bool = False) -> None:
    """Change one bit in the middle."""
    status = path.stat()
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    moment = status.st_mtime_ns + (0 if keep_time else 1_000_000_000)
    os.utime(path, ns=(status.st_atime_ns, moment))


def write_plain(path: Path) -> dict[str, str]:
    """A directory of files without manifest; the SHA-256 of each."""
    for name, size in (("data.mdb", 300_000), ("sub/a.bin", 70_000), ("sub/deep/b", 1)):
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(os.urandom(size))
    (path / "empty").touch()
    return hashes(path)


class Counting(Progress):
    """Tells every step, and how many bytes are done."""

    def __init__(self, on_advance: Callable[[int], None] = lambda _: None) -> None:
        super().__init__()
        self.done = 0
        self._counting = threading.Lock()
        self._on_advance = on_advance

    def advance(self, count: int) -> None:
        with self._counting:
            self.done += count
        self._on_advance(count)
        super().advance(count)


def staged(cli: Cli, source: Path, to: Path, *more: object) -> Result:
    """A call that makes a whole copy."""
    result = cli("stage", source, "--to", to, *more)
    assert result.code == 0, result
    assert is_sealed(to)
    assert partials(to) == []
    return result


def refused(result: Result, *words: object, code: int = 1) -> str:
    """The one line of the error, with all that it must name."""
    assert result.code == code, result
    for word in words:
        assert str(word) in result.error, result.error
    assert "unexpected" not in result.error
    return result.error
