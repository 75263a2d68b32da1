"""Is ``dataprep stage`` from a bucket as fast as clients that check nothing?

64 shards of 16 MiB in an S3 on this machine, which keeps them in memory, into a directory in memory
and on disk. In rounds: ``dataprep stage``, which hashes and flushes, beside obstore itself, boto3's
``download_file`` and s3fs' ``get``, eight files at once, each a program with its start-up, with
``sync`` at its end on disk. The server counts requests.
"""

from __future__ import annotations

import io
import json
import random
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from PIL import Image

from benchmarks import raw_sets
from benchmarks.measure import ROOT, CannotRunError, Setting, Usage, fresh, rounds, run
from benchmarks.tables import Row, Target, faster, figure
from dataprep.system.filesystems import filesystem_of

_MEMORY = Path("/dev/shm")
_ADDRESS = "s3://bucket/set"
_OURS, _OBSTORE, _BOTO3, _S3FS = "dataprep stage", "obstore", "boto3", "s3fs"
_TARGETS = {_OBSTORE: Target(">=", 0.9), _BOTO3: Target(">=", 1.0), _S3FS: Target(">=", 1.0)}
_COMMENT = 65533  # bytes, the most that a JPEG has in one
_EACH = """
import json, os, sys
from concurrent.futures import ThreadPoolExecutor
copy = sys.argv[1]
with open(sys.argv[2] + "/manifest.json") as file:
    manifest = json.load(file)
shards = [shard for split in manifest["splits"].values() for shard in split["shards"]]
paths = [file["path"] for shard in shards for file in shard["files"]]
for path in paths:
    os.makedirs(os.path.dirname(os.path.join(copy, path)), exist_ok=True)
"""
_PROGRAMS = {
    _OBSTORE: """
import obstore
from obstore.store import from_url
store = from_url("s3://bucket/set", client_options={"allow_http": True})
def get(path):
    with open(os.path.join(copy, path), "wb", buffering=0) as file:
        for piece in obstore.get(store, path).stream(min_chunk_size=4 << 20):
            file.write(piece)
with ThreadPoolExecutor(8) as pool:
    list(pool.map(get, paths))
""",
    _BOTO3: """
import boto3
from boto3.s3.transfer import TransferConfig
client, how = boto3.client("s3"), TransferConfig(max_concurrency=8)
def get(path):
    client.download_file("bucket", "set/" + path, os.path.join(copy, path), Config=how)
with ThreadPoolExecutor(8) as pool:
    list(pool.map(get, paths))
""",
    _S3FS: """
import s3fs
bucket = s3fs.S3FileSystem(endpoint_url=os.environ["AWS_ENDPOINT_URL"])
places = [os.path.join(copy, path) for path in paths]
bucket.get(["bucket/set/" + path for path in paths], places, batch_size=8)
""",
}


def measure(setting: Setting) -> list[Row]:
    """Into memory, then onto disk."""
    if find_spec("obstore") is None or find_spec("boto3") is None:
        raise CannotRunError("obstore or boto3 is not here: make readers")
    out = raw_sets.made(setting, f"bucket-{setting.size(64, 2)}", partial(_make, setting))
    with _server() as address, tempfile.TemporaryDirectory(dir=_MEMORY) as memory:
        environment = {
            "AWS_ENDPOINT_URL": address,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "somebody",
            "AWS_SECRET_ACCESS_KEY": "secret",
        }
        _forget(address)
        pushed: list[str | Path] = [sys.executable, "-m", "dataprep", "push", out / "set", _ADDRESS]
        run(pushed, environment=environment)
        requests = {"dataprep push": [_requests(address)]}
        rows = []
        for place in (Path(memory), setting.work):
            rows += _measure(setting, out / "set", place, environment, requests)
    size = sum(path.stat().st_size for path in raw_sets.contents(out / "set")) / 1e9
    return rows + [
        figure(f"{name}: requests", [count / size for count in counts], "a GB")
        for name, counts in requests.items()
    ]


def _measure(
    setting: Setting,
    out: Path,
    place: Path,
    environment: Mapping[str, str],
    requests: dict[str, list[int]],
) -> list[Row]:
    kind, missing = filesystem_of(place), []
    flush = kind not in ("tmpfs", "ramfs")
    commands: dict[str, list[str | Path]] = {
        name: [sys.executable, "-c", _EACH + program] for name, program in _PROGRAMS.items()
    }
    try:
        commands[_S3FS][0] = setting.peer(_S3FS)
    except CannotRunError as error:
        del commands[_S3FS]
        missing.append(Row(_S3FS, problem=str(error)))

    def measured(name: str) -> Usage:
        with fresh(place / "copy") as copy:
            command: list[str | Path] = (
                [*commands[name], copy, out]
                if name != _OURS
                else [*(sys.executable, "-m", "dataprep", "stage", _ADDRESS, "--to", copy)]
            )
            _forget(environment["AWS_ENDPOINT_URL"])
            usage = run(command, flush=flush and name != _OURS, environment=environment)
            requests.setdefault(name, []).append(_requests(environment["AWS_ENDPOINT_URL"]))
        return usage

    programs = {name: partial(measured, name) for name in (_OURS, *commands)}
    found = rounds(setting, f"remote, {kind}", programs, warm_up=list(programs.values()))
    rows = []
    for name in commands:
        what = f"{_OURS} into {kind}: against {name}" + ", sync" * flush
        rows.append(faster(what, found[_OURS], found[name], _TARGETS[name]))
    return rows + missing


def _make(setting: Setting, place: Path) -> None:
    """Images of 1 MiB, sixteen a shard."""
    stream, noise, shards = io.BytesIO(), random.Random(0), setting.size(64, 2)
    Image.new("RGB", (64, 64)).save(stream, "JPEG")
    jpeg = stream.getvalue()
    raw = place / "raw" / "train" / "class"
    raw.mkdir(parents=True)
    for number in range(16 * shards):
        comments = [b"\xff\xfe\xff\xff" + noise.randbytes(_COMMENT) for _ in range(16)]
        (raw / f"{number}.jpg").write_bytes(b"".join((jpeg[:2], *comments, jpeg[2:])))
    words = ["--raw", place / "raw", "--out", place / "set", "--num_shards", str(shards)]
    run([sys.executable, "-m", "dataprep", "folder", *map(str, words)])


@contextmanager
def _server() -> Iterator[str]:
    """The server of the tests, which misbehaves only if told to."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.remote.server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        text=True,
    ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.communicate()


def _forget(address: str) -> None:
    """Begin to count anew."""
    request = urllib.request.Request(f"{address}/-/faults", b"{}", method="PUT")
    urllib.request.urlopen(request).close()


def _requests(address: str) -> int:
    with urllib.request.urlopen(f"{address}/-/log") as answer:
        return len(json.load(answer))
