"""What every sink must do, as tests that the author of a sink runs too.

::

    from dataprep.formats.testing import SinkTests
    from dataprep.plugins import load_sink

    class TestMds(SinkTests):
        sink = load_sink("mds")  # as it is installed; or MdsSink()

Every test runs with every combination of the sink's options. pytest is needed here, and nowhere
else in dataprep but in `dataprep.datasets`' tests.
"""

# ruff: noqa: S101, D102 - these are tests: asserts, and names that say what they are

from __future__ import annotations

import datetime
import hashlib
import importlib
import io
import itertools
import json
import os
import pickle
import random
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, Self

import pytest
from PIL import Image

from dataprep.errors import SinkError, UsageError
from dataprep.formats.base import FinishedShard, Layout, ShardName, Sink, WrittenFile
from dataprep.formats.example import DatasetInfo, Example
from dataprep.formats.subprocess_reader import in_child, read_unverified
from dataprep.system.durable_files import PARTIAL
from dataprep_schemas.fields import (
    BOX_FLAGS,
    BOX_LABELS,
    BOXES,
    CAPTIONS,
    MASK,
    PLAIN,
    Field,
    Fields,
)

_Given = tuple[DatasetInfo, list[Example]]

_LAYOUTS: tuple[Layout, ...] = ("split", "flat")
_ONLY = ShardName("train", 0, 1)
_SIZE = (6, 8)  # height and width of every image, where all have one size
_SINGLE = DatasetInfo(
    # Classes may be names of folders, which need not be UTF-8.
    classes=(
        *(("n01440760", "tench"), ("n01440761", "goldfish"), ("caf\udce9", "鮫"), ("d", "d")),
        *((f"n{number}", f"class {number}") for number in range(9)),  # a set has another order
    ),
    fields=(
        BOXES,
        CAPTIONS,
        MASK,
        *(Field(f"{it}_{at}", it) for it in PLAIN for at in "ab" if it != "flags"),
    ),
)
_MULTI = replace(
    _SINGLE,
    classes=(*((f"Finding_{number:02d}",) * 2 for number in range(13)), ("\udcff", "\udcff")),
    multilabel=True,
    colorspace="Grayscale",
    fields=(*_SINGLE.fields, BOX_LABELS, *BOX_FLAGS),
)
# Keys are data. Those that differ little are told apart all the same.
_KEYS = (
    *("n01440764/n01440764_10026.JPEG", "n01443537/n01440764_10026.JPEG"),
    *("n01440764/n01440764_10026.png", "n01440764/N01440764_10026.JPEG", "n01440764_10026", "0"),
    *("Schäferhund/日本 語.JPEG", "not-utf-8/\udce9t\udce9.JPEG", ".hidden", "../../up.JPEG"),
    *("a b/'quoted' \"twice\", and; more.JPEG", "C:\\back\\100%s {0} $HOME `id`.JPEG"),
    f"long/{'x' * 250}.JPEG",
)
# A format may refuse these with a SinkError, but not change them.
_AWKWARD_KEYS = ("", "/absolute.JPEG", "two\nlines", "a\ttab", "a\0zero\0", " blank ", "x" * 900)
_OURS = (".dataprep", "manifest.json", "records.parquet")
_YEAR = 366 * 86_400.0  # seconds
_AWKWARD_TEXTS = (" blank ", "two\r\nlines", "zero\0", "x" * 10**5)


# Kinds of data sets, by name.
CASES: Mapping[str, DatasetInfo] = {
    "single-label": _SINGLE,
    "multi-label": _MULTI,
    "one-size": replace(_SINGLE, size=_SIZE, fields=()),
    "multi-label-one-size": replace(_MULTI, size=_SIZE),
}


def examples_of(sink: Sink, case: str, count: int, first: int = 0) -> _Given:
    """What a sink is told of a data set, and ``count`` of its examples, all different.

    Pixels are all of one size; the sink is not told of what it has no place for.
    """
    info = replace(CASES[case], size=_SIZE) if sink.pixels else CASES[case]
    examples = [_example(info, number, sink.pixels) for number in range(first, first + count)]
    return replace(info, fields=_kept(sink, info.fields)), examples


def _kept(sink: Sink, fields: Fields) -> Fields:
    return tuple(field for field in fields if field.kind in sink.keeps)


@lru_cache(maxsize=1000)
def _example(info: DatasetInfo, number: int, pixels: bool) -> Example:
    """Number ``number`` of a made-up data set, with a real small image; always the same."""
    height, width = info.size or (5 + number % 4, 9 + number % 7)
    # A set of colour images has grey ones among them, and 16 bits are as of radiographs.
    grey = info.channels == 1 or (number % 5 == 4 and not pixels)
    form = "RAW" if pixels else ("JPEG", "PNG")[number % 3 == 2]
    mode, bytes_each = ("L", 1) if grey else ("RGB", 3)
    if grey and form == "PNG" and number % 2 == 0:
        mode, bytes_each = "I;16", 2
    encoded = random.Random(number).randbytes(height * width * bytes_each)  # noqa: S311
    if not pixels:
        file = io.BytesIO()
        Image.frombytes(mode, (width, height), encoded).save(file, form)
        encoded = file.getvalue()
    classes = tuple(range(len(info.classes)))
    several = ((), classes, classes[number % 14 :][:1], classes[number % 5 :: 3])[number % 4]
    labels = several if info.multilabel else (number * 3 % len(classes),)
    # Some have all fields, some none, and in any order.
    known: dict[str, Any] = {}
    for place, field in enumerate(reversed(info.fields)):
        if (number + place) % 4 and number % 10 != 5 and not field.rules.each:
            known[field.name] = field.rules.samples[(number + place) % len(field.rules.samples)]
    for field in info.fields:  # what is said of others of them
        many = len(known.get(field.rules.each, ()))
        fitting = [value for value in field.rules.samples if len(value) == many] if many else []
        if fitting and number % 7 != 1:  # of some it is not known
            known[field.name] = fitting[0]
    return info.example(
        f"{info.identifiers(labels) or 'none'}/{number:08d}.{form.lower()}",
        encoded,
        labels,
        kind=form,
        size=(height, width),
        fields=known,
    )


class SinkTests:
    """The suite; subclass it in a test module under a name that begins with ``Test``.

    A sink that cannot hold a kind of data set with some of its options, say several labels an
    image, refuses it in `Sink.check`; then there are no tests of the two together. Each kind but
    those of `refuses` must be held with one combination of options at least.

    Attributes:
        sink: the sink to test; importable, since another process gets it pickled.
        refuses: names of `CASES` that the format has no place for at all.
    """

    sink: ClassVar[Sink | None] = None
    refuses: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def variants(cls) -> list[Sink]:
        """The sink with every combination of its options."""
        if (sink := cls.sink) is None:
            raise TypeError(f"{cls.__name__} needs sink = YourSink()")
        choices = itertools.product(*sink.OPTIONS.values())
        return [type(sink)(**dict(zip(sink.OPTIONS, values, strict=True))) for values in choices]

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Give every test its sinks and kinds of data sets."""
        variants = self.variants()
        if "variants" in metafunc.fixturenames:
            metafunc.parametrize("variants", [variants], ids=["all"])
        elif "case" in metafunc.fixturenames:
            pairs = [
                (sink, case) for sink in variants for case in CASES if not _refusal(sink, case)
            ]
            ids = [f"{_id(sink)}-{case}" for sink, case in pairs]
            metafunc.parametrize(("variant", "case"), pairs, ids=ids)
        else:
            metafunc.parametrize("variant", variants, ids=map(_id, variants))

    def test_it_describes_itself(self, variants: Sequence[Sink]) -> None:
        for sink in variants:
            good = sink.summary.strip() and "\n" not in sink.summary
            assert good, "summary: give one line for `dataprep sinks`"
            bare = [suffix for suffix in sink.suffixes if suffix[:1].isalnum()]
            assert not bare, f"suffixes: {bare} need their dots, as in '.rec'"
            again = type(sink)(**json.loads(json.dumps(dict(sink.config()))))
            same = again.options == sink.options
            assert same, "config() must make the same sink, from plain JSON"
        for case in CASES:
            refusals = [_refusal(sink, case) for sink in variants]
            told = f"check() refuses every {case} data set: {refusals}"
            assert all(refusals) == (case in self.refuses), told

    def test_files_have_places_of_their_own(self, variant: Sink) -> None:
        for layout, train, validation in itertools.product(_LAYOUTS, (1, 2, 11), (1, 2)):
            counts = {"train": train, "validation": validation}
            shards = [ShardName(it, number, n) for it, n in counts.items() for number in range(n)]
            paths = [path for shard in shards for path in variant.paths(shard, layout)]
            hidden = [path for path in paths if any(part.startswith(".") for part in path.parts)]
            assert not hidden, f"paths() gives hidden files, which no reader finds: {hidden}"
            for split, count in counts.items():
                paths += variant.split_paths(split, count, layout)
            # Metadata may be hidden, as its readers look for its name, if it is not taken.
            ours = [it for it in paths if it.parts[0] in _OURS or it.name.endswith(PARTIAL)]
            assert not ours, f"paths() gives {ours}: these are names of dataprep's own"
            absolute = [path for path in paths if path.is_absolute()]
            assert not absolute, f"paths() gives {absolute}: give them below the output directory"
            directories = {parent for path in paths for parent in path.parents}
            told = f"paths() gives two shards the same place, or a directory's: {sorted(paths)}"
            assert len({str(path).lower() for path in paths}) == len(paths), told
            assert directories.isdisjoint(paths), told

    def test_examples_come_back(self, variant: Sink, case: str, tmp_path: Path) -> None:
        info, examples = examples_of(variant, case, 100)
        keys = (*_KEYS, *(it.key for it in examples[len(_KEYS) :]))
        examples = [replace(it, key=key) for it, key in zip(examples, keys, strict=True)]
        examples = examples[: variant.most_images(info)]
        shard = _write(variant, info, examples, tmp_path / "out")
        wanted = _expected(variant, examples)
        before = _contents(tmp_path)
        with variant.reader(shard.paths, info) as reader:
            _same(list(reader), wanted, "iterating")
            with pytest.raises(IndexError):
                reader[len(wanted)]
            with variant.reader(shard.paths, info) as other:
                for number, pair in enumerate(zip(reader, other, strict=True)):
                    _same(pair, [wanted[number]] * 2, "while another reads, iterating")
                    place = number * 7 % len(wanted)
                    _same([reader[place]], [wanted[place]], "while iterating, reader[number]")
        assert _contents(tmp_path) == before, "a reader must not make or change files"
        reader.close()
        assert not _held_open(tmp_path), f"close() leaves open: {_held_open(tmp_path)}"

    def test_no_examples_and_lost_sidecars(self, variant: Sink, case: str, tmp_path: Path) -> None:
        info, examples = examples_of(variant, case, 12)
        shard = _write(variant, info, [], tmp_path / "empty")
        with variant.reader(shard.paths, info) as reader:
            found = [len(reader), *reader]
            assert found == [0], f"an empty shard must be readable and empty, but has {found}"
        shard = _write(variant, info, examples, tmp_path / "alone")
        for sidecar in shard.paths[1:]:
            sidecar.unlink()
        with variant.reader(shard.paths[:1], DatasetInfo()) as reader:
            same = [it.encoded for it in reader] == [it.encoded for it in examples]
            assert same, "reader() must find the images by the data file alone"

    def test_awkward_texts_come_back_or_are_refused(self, variant: Sink, tmp_path: Path) -> None:
        info, examples = _held(variant, 3)
        info = replace(info, fields=_kept(variant, (Field("it", "text"),)))
        one, two, three = (replace(it, fields={}) for it in examples)
        tries = [replace(two, key=key) for key in _AWKWARD_KEYS]
        tries += [replace(two, fields={"it": text}) for text in _AWKWARD_TEXTS]
        for number, awkward in enumerate(tries):
            what = f"key {awkward.key[:20]!r}, fields {repr(awkward.fields)[:40]}"
            examples = [one, awkward, three]
            try:
                shard = _write(variant, info, examples, tmp_path / str(number))
            except SinkError as error:
                if "\n" in str(error):
                    pytest.fail(f"{what}: say it in one line: {error}")
            else:
                with variant.reader(shard.paths, info) as reader:
                    _same(list(reader), _expected(variant, examples), f"{what}, which was taken,")

    def test_equal_examples_give_equal_bytes(self, variant: Sink, tmp_path: Path) -> None:
        sets = [examples_of(variant, case, 7) for case in CASES if not _refusal(variant, case)]
        wanted = list(_splits(variant, sets, tmp_path / "telltale"))
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONHASHSEED", "random")  # sets have another order there
            # Packed, so that the sink's module finds the clock put forward when it is imported.
            packed = pickle.dumps((variant, sets, tmp_path / "there"))
            there = list(in_child(tmp_path, _splits_later, packed, time.time()))
        assert there == wanted, "equal examples give other bytes in another process, a year later"
        with ThreadPoolExecutor(4) as pool:
            found = pool.map(lambda it: [*_splits(variant, sets, tmp_path / it)], "abcd")
            assert [*found] == [wanted] * 4, "threads side by side give other bytes"
        turned = [(info, examples[::-1]) for info, examples in sets]
        back = _splits(variant, turned, tmp_path / "back")
        in_order = all(one != other for one, other in zip(wanted, back, strict=True))
        assert in_order, "examples must be stored in the order of write()"

    @pytest.mark.parametrize("finished", [False, True])
    def test_a_shard_can_be_abandoned(self, variant: Sink, finished: bool, tmp_path: Path) -> None:
        info, examples = _held(variant, 3)
        paths = _temporary(tmp_path, variant.paths(_ONLY, "split"))
        writer = variant.open(paths, info)
        for example in examples:
            writer.write(example)
        written = writer.close() if finished else ()
        writer.abandon()
        writer.abandon()
        assert not _held_open(tmp_path), f"abandon() leaves open: {_held_open(tmp_path)}"
        same = not finished or list(written) == [_described(path) for path in paths]
        assert same, "abandon() after close() must not change the files"

    def test_finished_files_are_on_the_disk(self, variant: Sink, tmp_path: Path) -> None:
        (info, examples), flushed = _held(variant, 5), set()

        def noting(flush: Callable[[int], None], file: Any) -> None:
            descriptor = file if isinstance(file, int) else file.fileno()
            status = os.fstat(descriptor)
            flushed.add((status.st_ino, status.st_size))
            flush(descriptor)

        with pytest.MonkeyPatch.context() as patch:
            for name in ("fsync", "fdatasync"):
                patch.setattr(os, name, partial(noting, getattr(os, name)))
            made = _split(variant, info, [examples], tmp_path)
        statuses = {name: (tmp_path / name).stat() for name in made}
        lost = [name for name, it in statuses.items() if (it.st_ino, it.st_size) not in flushed]
        assert not lost, f"a power cut would take {lost}: call os.fsync, or use `hash_finished`"

    def test_damage_is_one_line(self, variant: Sink, tmp_path: Path) -> None:
        info, examples = _held(variant, 6)
        shard = _write(variant, info, examples, tmp_path / "whole")
        damaged = _damaged_copies(shard, tmp_path / "whole")
        # Of formats that trust their files, each costs a process.
        for name, paths in itertools.islice(damaged, 6 if variant.trusts_files else None):
            refusal, where = "", f"reading a shard with {name}"
            try:
                list(read_unverified(variant, paths, info))
            except SinkError as error:
                refusal = str(error)
            except Exception as error:  # noqa: BLE001 - this is what is being looked for
                pytest.fail(f"{where} must raise a SinkError, not:\n{error!r}")
            assert "\n" not in refusal, f"{where}: say it in one line: {refusal}"
            missed = not refusal and name == "data cut in half"
            assert not missed, "iterating over half a shard must raise a SinkError"
            named = not refusal or any(str(path) in refusal for path in paths)
            assert named, f"{where}: name the file: {refusal}"

    @pytest.mark.parametrize(("layout", "count"), [("split", 1), ("flat", 3)])
    def test_a_split_can_be_finished_and_moved(
        self, variant: Sink, case: str, layout: Layout, count: int, tmp_path: Path
    ) -> None:
        sets = [examples_of(variant, case, 5, 5 * number) for number in range(count)]
        info, batches = sets[0][0], [examples for _, examples in sets]
        roots = [tmp_path / "telltale", tmp_path / "other" / "place"]
        here, there = (_split(variant, info, batches, root, layout) for root in roots)
        assert here == there, "a split must have the same bytes anywhere"
        told = [it for it, data in here.items() if re.search(b"telltale|partial", data)]
        assert not told, f"{told} must not say where they are, nor under which name"
        shutil.rmtree(roots[0])
        for number, batch in enumerate(batches):
            names = variant.paths(ShardName("train", number, count), layout)
            with variant.reader([roots[1] / name for name in names], info) as reader:
                _same(list(reader), _expected(variant, batch), "a shard of several")

    def test_the_formats_own_reader_agrees(self, variant: Sink, case: str, tmp_path: Path) -> None:
        if not variant.reference:
            return
        info, examples = examples_of(variant, case, 12)
        shard = _write(variant, info, examples, tmp_path)
        try:
            found = list(variant.reference_records(shard.paths, info))
        except UsageError as error:
            pytest.skip(str(error))
        wanted = [(example.encoded, example.labels) for example in examples]
        assert found == wanted, f"reference_records(): {variant.reference} gives something else"


# --- Writing as dataprep does: under temporary names, then renamed ---


def _temporary(root: Path, names: Sequence[PurePosixPath]) -> list[Path]:
    paths = [root / name.parent / f".{name.name}.{root.name}.partial" for name in names]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
    return paths


def _published(
    root: Path, names: Sequence[PurePosixPath], write: Callable[[list[Path]], Sequence[WrittenFile]]
) -> tuple[Path, ...]:
    """Have files written, compare what is said of them, and give them their names."""
    temporary = _temporary(root, names)
    for source, name, said in zip(temporary, names, write(temporary), strict=True):
        found = _described(source)
        assert said == found, f"the sink says {said} of {name}, which is {found}"
        source.rename(root / name)
    return tuple(root / name for name in names)


def _write(
    sink: Sink,
    info: DatasetInfo,
    examples: Sequence[Example],
    root: Path,
    of: ShardName = _ONLY,
    layout: Layout = "split",
) -> FinishedShard:
    def write(paths: list[Path]) -> Sequence[WrittenFile]:
        writer = sink.open(paths, info)
        try:
            for example in examples:
                writer.write(example)
            return writer.close()
        finally:
            writer.abandon()

    names = tuple(sink.paths(of, layout))
    return FinishedShard(_published(root, names, write), names, len(examples))


def _described(path: Path) -> WrittenFile:
    content = path.read_bytes()
    return WrittenFile(len(content), hashlib.sha256(content).hexdigest())


def _split(
    sink: Sink,
    info: DatasetInfo,
    batches: Sequence[Sequence[Example]],
    root: Path,
    layout: Layout = "split",
) -> dict[str, bytes]:
    """Write a split, and what is made once a split; its files."""
    count = len(batches)
    finished = [
        _write(sink, info, batch, root, ShardName("train", number, count), layout)
        for number, batch in enumerate(batches)
    ]
    names = sink.split_paths("train", count, layout)
    _published(root, names, lambda paths: sink.finish_split(paths, info, finished))
    declared = {str(name) for shard in finished for name in shard.names} | set(map(str, names))
    found = _contents(root)
    differ = f"there are {set(found)}, but paths() and split_paths() say {declared}"
    assert set(found) == declared, differ
    return found


def _splits(sink: Sink, sets: Sequence[_Given], root: Path) -> Iterator[dict[str, bytes]]:
    for number, (info, examples) in enumerate(sets):
        yield _split(sink, info, [examples], root / str(number))


def _splits_later(packed: bytes, before: float) -> Iterator[dict[str, bytes]]:
    """The same a year later by Python's clock, and a second later by that of other libraries."""
    time.sleep(max(0.0, before + 1.0 - time.time()))
    for name in ("zoneinfo", "pandas"):  # which crash if they are loaded with another datetime
        with suppress(ImportError):
            importlib.import_module(name)
    now, parts = time.time, {name: getattr(time, name) for name in ("gmtime", "localtime")}

    class Later(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Self:
            return cls.fromtimestamp(time.time(), tz)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time", lambda: now() + _YEAR)
        patch.setattr(time, "time_ns", lambda: int(time.time() * 1e9))
        for name, plain in parts.items():
            patch.setattr(time, name, lambda it=None, to=plain: to(it or time.time()))
        patch.setattr(datetime, "datetime", Later)
        yield from _splits(*pickle.loads(packed))  # noqa: S301 - bytes of our own


# --- Damage ---


def _damaged_copies(shard: FinishedShard, root: Path) -> Iterator[tuple[str, tuple[Path, ...]]]:
    """Copies of a shard in ``root``, each with one file damaged, and what is wrong with it."""
    for place, victim in enumerate(shard.paths):
        part = f"sidecar {place}" if place else "data"
        for number, (name, content) in enumerate(_damages(victim.read_bytes())):
            copy = root.with_name(f"damaged-{place}-{number}")
            shutil.copytree(root, copy)
            paths = tuple(copy / file for file in shard.names)
            paths[place].write_bytes(content)
            yield f"{part} {name}", paths
            if not place and len(paths) > 1:
                yield f"data alone {name}", paths[:1]


def _damages(content: bytes) -> Iterator[tuple[str, bytes]]:
    chance, size = random.Random(0), len(content)  # noqa: S311
    yield "cut in half", content[: size // 2]
    yield "of 0 bytes", b""
    yield "of garbage", chance.randbytes(max(size, 64))
    yield "and garbage behind it", content + chance.randbytes(100)
    middle = bytes(size // 3)
    yield "with zeros in the middle", content[: size // 3] + middle + content[-size // 3 :]
    for length in {1, 17, size - 1} & set(range(1, size)):
        yield f"cut to {length} bytes", content[:length]
    for _ in range(16 if size else 0):
        # Beginnings hold the numbers that readers believe.
        at = chance.randrange(min(size, chance.choice((32, 512, size))))
        changed = bytes([content[at] ^ 1 << chance.randrange(8)])
        yield f"a bit flipped in byte {at}", content[:at] + changed + content[at + 1 :]


# --- What is found and what is expected ---


def _id(sink: Sink) -> str:
    return ",".join(sink.options.values()) or sink.name


def _refusal(sink: Sink, case: str) -> str:
    """Why the sink refuses this kind of data set; empty if it does not."""
    try:
        sink.check(examples_of(sink, case, 0)[0])
    except UsageError as error:
        return str(error)
    return ""


def _held(sink: Sink, count: int) -> _Given:
    """Of a kind of data set that the sink holds with these options."""
    found = [case for case in CASES if not _refusal(sink, case)]
    assert found, f"check() refuses every kind of data set with the options {dict(sink.options)}"
    return examples_of(sink, found[0], count)


def _expected(sink: Sink, examples: Sequence[Example]) -> list[Example]:
    """What a reader must give back: all that the format has a place for."""
    kinds = {field.name: field.kind for info in CASES.values() for field in info.fields}
    kinds["it"] = "text"
    return [
        replace(
            it, fields={name: it.fields[name] for name in it.fields if kinds[name] in sink.keeps}
        )
        for it in examples
    ]


def _contents(root: Path) -> dict[str, bytes]:
    """Every file below ``root``."""
    files = (path for path in sorted(root.rglob("*")) if not path.is_dir())
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


def _held_open(root: Path) -> list[str]:
    """Files below ``root`` that this process has open."""
    found = [os.path.realpath(descriptor) for descriptor in Path("/proc/self/fd").iterdir()]
    return [name for name in found if name.startswith(f"{root}/")]


def _same(found: Sequence[Example], wanted: Sequence[Example], how: str) -> None:
    """Fail with the first thing that differs."""
    assert len(found) == len(wanted), f"{how} gives {len(found)} examples, not {len(wanted)}"
    for number, (one, other) in enumerate(zip(found, wanted, strict=True)):
        for name in Example.__slots__ if one != other else ():
            here, there = (repr(getattr(it, name))[:200] for it in (one, other))
            told = f"{how} gives example {number} the {name} {here}, expected {there}"
            assert getattr(one, name) == getattr(other, name), told
