"""What reads finished data sets, and valid inputs of it: every format, a set with its tables."""

from __future__ import annotations

import hashlib
import itertools
import json
import shutil
import struct
import tempfile
import zlib
from contextlib import redirect_stderr, redirect_stdout, suppress
from functools import cache
from io import StringIO
from pathlib import Path
from random import Random
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
from pyarrow import parquet

import dataprep
from dataprep.cli import main
from dataprep.errors import DataprepError, UsageError
from dataprep.formats import DatasetInfo, ShardName, Sink
from dataprep.formats.testing import CASES, examples_of
from dataprep.formats.tfrecord import masked_crc
from dataprep.plugins import load_sink
from dataprep.sealed.set import NAME, PART
from dataprep.staging.source import read_inventory
from dataprep.system.state_files import encode
from dataprep.training.records import describe
from dataprep_schemas.state import Part
from tests.conftest import write_tiny_raw
from tests.forging import rehashed
from tests.fuzz.documents import change
from tests.fuzz.mutations import mutated
from tests.fuzz.raw_readers import NEXT

_FILES = (
    *(NAME, PART, "records.parquet", "train/train-00000-of-00002", "train/train-00001-of-00002"),
    *("index/train/train-00000-of-00002", "index/train/train-00001-of-00002"),
    *("validation/validation-00000-of-00001", "index/validation/validation-00000-of-00001"),
)
_COMMANDS: tuple[tuple[str, ...], ...] = (
    *(("verify", "--level", "decode", "--workers", "1"),) * 6,
    *(("inspect", "--json"), ("status",), ("card",)) * 3,
    *(("diff", "SET"), ("stage", "--to", "COPY"), ("lint",)),  # which take ten times as long
    ("convert", "--to", "OTHER", "--sink", "recordio", "--workers", "1"),
)
_ONLY = ShardName("train", 0, 1)


@cache
def _variants(name: str) -> list[tuple[Sink, str]]:
    """A format with every combination of its options, and the kinds of data sets each can hold."""
    sink = load_sink(name)
    found = []
    for values in itertools.product(*sink.OPTIONS.values()):
        variant = type(sink)(**dict(zip(sink.OPTIONS, values, strict=True)))
        for case in CASES:
            with suppress(UsageError):
                variant.check(examples_of(variant, case, 0)[0])
                found.append((variant, case))
    return found


def shards(name: str) -> list[bytes]:
    """A shard of each of them: the number of the variant, then its files."""
    made = []
    for number, (sink, case) in enumerate(_variants(name)):
        with tempfile.TemporaryDirectory() as directory:
            paths = _paths(sink, Path(directory))
            info, examples = examples_of(sink, case, 4)
            writer = sink.open(paths, info)
            for example in examples:
                writer.write(example)
            writer.close()
            writer.abandon()
            if name.startswith("hdf5"):
                _drop_checksums(paths[0])
            made.append(NEXT.join([bytes([number]), *(path.read_bytes() for path in paths)]))
    return made


def _drop_checksums(path: Path) -> None:
    """Write an HDF5 file anew in its oldest form, which has none that would stop a forger."""
    with h5py.File(path) as found, h5py.File(path.with_name("old"), "w", libver="earliest") as old:
        for name in found.attrs:  # as bytes, which need not be UTF-8
            attribute = found.attrs.get_id(name)
            values = np.empty(attribute.shape, attribute.dtype)
            attribute.read(values)
            kind, space = attribute.get_type(), attribute.get_space()
            h5py.h5a.create(old.id, name.encode(), kind, space).write(values)
        for name in found:
            found.copy(name, old)
    path.with_name("old").rename(path)


def _paths(sink: Sink, directory: Path) -> list[Path]:
    paths = [directory / name for name in sink.paths(_ONLY, "split")]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
    return paths


def read_shard(name: str, data: bytes, place: Path) -> None:
    """From its beginning to its end, its first and last example, and without its other files."""
    number, *files = data.split(NEXT)
    variants = _variants(name)
    sink, case = variants[int.from_bytes(number[:1]) % len(variants)]
    paths = _paths(sink, place)
    contents = itertools.chain(files, itertools.repeat(b""))
    for path, content in zip(paths, contents, strict=False):
        path.write_bytes(content)
    for given, info in ((paths, examples_of(sink, case, 0)[0]), (paths[:1], DatasetInfo())):
        with suppress(DataprepError), sink.reader(given, info) as reader:
            with suppress(DataprepError, IndexError):
                reader[len(reader) - 1]
            with suppress(DataprepError, IndexError):
                reader.encoded(0)
            for example in itertools.islice(reader, 50):
                describe(example)


def sealed_records(data: bytes) -> bytes:
    """TFRecords with the right checksums."""
    number, *files = data.split(NEXT)
    sealed = bytearray(files[0] if files else b"")
    at = 0
    while at + 16 <= len(sealed):
        (size,) = struct.unpack_from("<Q", sealed, at)
        sealed[at + 8 : at + 12] = struct.pack("<I", masked_crc(bytes(sealed[at : at + 8])))
        end = at + 12 + size
        if end + 4 > len(sealed):
            break
        sealed[end : end + 4] = struct.pack("<I", masked_crc(bytes(sealed[at + 12 : end])))
        at = end + 4
    return NEXT.join([number, bytes(sealed), *files[1:]])


def sets() -> list[bytes]:
    """A small data set, whole."""
    with tempfile.TemporaryDirectory() as directory:
        raw, out = Path(directory, "raw"), Path(directory, "out")
        write_tiny_raw(raw, classes=2, images=2, validation=2)
        shards = ("--num_shards", "train=2,validation=1", "--workers", "1")
        words = ("imagenet", "--raw_data_dir", raw, "--local_scratch_dir", out, *shards)
        said = _said(*map(str, words))
        assert (out / NAME).exists(), said
        whole = [out / name for name in _FILES]
        manifest = json.loads(whole[0].read_bytes())
        part = encode(Part(manifest["sha256"], {"train": (1,), "validation": (0,)}))
        return [
            NEXT.join(path.read_bytes() if path.exists() else own for path in whole)
            for own in (b"{}", part)
        ]


def mutated_set(random: Random, seeds: list[bytes]) -> bytes:
    """Something else in its manifest, as a part, in the table of records, or in a shard."""
    files = random.choice(seeds).split(NEXT)
    at = random.choice((0, 0, 0, 1, 2, 2, 2, 3, 5))
    if at == 2 and random.getrandbits(1):
        files[at] = _mutated_table(random, files[at])
    elif at < 2:
        document = json.loads(files[at])
        if document:  # there is no part beside a whole set
            change(random, document)
        files[at] = json.dumps(document).encode()
    else:
        files[at] = mutated(random, [files[at]])
    return NEXT.join(files)


def _mutated_table(random: Random, data: bytes) -> bytes:
    """Another column, or other rows, in a table that is none the less well-formed."""
    table = parquet.read_table(pa.BufferReader(data))
    at = random.randrange(table.num_columns)
    name, column = table.column_names[at], table.column(at)
    values: list[Any] = [None, "", "x" * 1000, -1, 0, 2**31 - 1, 2**62, float("nan"), [], [-1]]
    match random.randrange(7):
        case 0:
            table = table.slice(0, random.choice((0, 1, table.num_rows - 1)))
        case 1:
            table = table.drop_columns([name])
        case 2:
            odd = ("x\"; COPY (select 1) TO 'y", name.upper(), "", "\u202e", "a" * 10_000, "label")
            table = table.rename_columns({name: random.choice(odd)})
        case 3:
            table = table.append_column(random.choice((name, "more", "x y")), column)
        case 4 if not pa.types.is_nested(column.type):
            table = table.set_column(at, name, column.dictionary_encode())
        case _:
            with suppress(pa.ArrowException, OverflowError, TypeError):
                value = pa.scalar(random.choice(values), column.type)
                table = table.set_column(at, name, pa.repeat(value, len(table)))
    sink = pa.BufferOutputStream()
    parquet.write_table(table, sink)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def sealed_set(data: bytes) -> bytes:
    """With the hashes of all files, as somebody seals it who forges everything."""
    files = data.split(NEXT)
    with suppress(ValueError, RecursionError, OverflowError):
        manifest = json.loads(files[0])
        contents = dict(zip(_FILES, files, strict=False))
        for entry in _entries(manifest):
            content = contents.get(entry["path"])
            if content is not None:
                entry["bytes"] = len(content)
                entry["sha256"] = hashlib.sha256(content).hexdigest()
        with suppress(LookupError, TypeError, AttributeError):
            for split in manifest["splits"].values():
                of_shards = [file["bytes"] for it in split["shards"] for file in it["files"]]
                split["bytes"] = sum(of_shards)
        files[0] = rehashed(manifest)
        part = json.loads(files[1])
        if isinstance(part, dict) and "manifest_sha256" in part and isinstance(manifest, dict):
            files[1] = rehashed({**part, "manifest_sha256": manifest["sha256"]})
    return NEXT.join(files)


def _entries(node: Any) -> list[dict[str, Any]]:
    """Whatever in a manifest describes a file."""
    if isinstance(node, list):
        return [entry for each in node for entry in _entries(each)]
    if not isinstance(node, dict):
        return []
    own = [node] if isinstance(node.get("path"), str) and "sha256" in node else []
    return own + _entries([*node.values()])


def read_set(data: bytes, place: Path) -> None:
    """By every command that reads one."""
    for name, content in itertools.zip_longest(_FILES, data.split(NEXT)[: len(_FILES)]):
        path = place / "set" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name == PART and content == b"{}":
            path.unlink(missing_ok=True)
        else:
            path.write_bytes(content or b"")
    for made in ("copy", "other"):
        shutil.rmtree(place / made, ignore_errors=True)
    command, *options = _COMMANDS[zlib.crc32(data) % len(_COMMANDS)]
    here = str(place / "set")
    named = {"SET": here, "COPY": str(place / "copy"), "OTHER": str(place / "other")}
    for words in (["inspect"], [command, *(named.get(word, word) for word in options)]):
        words.insert(1, here)
        said = _said(*words)
        if "error: unexpected" in said:
            raise AssertionError(_said("--debug", *words))
        assert all(line.isprintable() for line in said.split("\n")), said
    read_inventory(place / "set")
    with suppress(KeyError), dataprep.open(here) as records:
        _ = [*records.labels[:5]], records.by_key("a")
    assert {path.name for path in place.iterdir()} <= {"set", "copy", "other", ".cache", ".config"}


def _said(*words: str) -> str:
    said = StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        main(words)
    return said.getvalue()
