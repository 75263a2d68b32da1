"""The rows of docs/readers.md, made of what each reader gives of a small set.

``python -m tests.interop.readers_page`` writes those of the readers that are installed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from dataprep.formats import DatasetInfo, Example
from dataprep.plugins import load_sink
from dataprep_schemas.fields import BOX_LABELS, BOXES, CAPTIONS, Field, Fields
from tests.conftest import FOREIGN
from tests.formats.examples import picture, places, write
from tests.interop.foreign import CLASSES, READERS

COLUMNS = ("image", "label", "labels", "key", "boxes", "captions", "attributes", "missing")
PLACES = {"box_labels": "boxes", "age": "attributes", "weight": "attributes", "view": "attributes"}
KINDS = {"age": "int", "weight": "float", "view": "text"}
CLASS_IDS = ("n01440764", "n01443537", "n01484850", "n01491361")
ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "readers.md"
ONE_LABEL = {("lmdb", "lmdb, `caffe.proto`"), ("lmdb", "DALI")}  # a Datum has one
ONE_LABEL |= {("webdataset", "Energon, `ImageClassificationSample`")}
COUNT = 14
NOTHING = "–"  # noqa: RUF001  # a dash, as pages have it
LATE = 6  # the first example that has boxes, captions and an age: datasets looks at five
ATTRIBUTES = (Field("age", "int"), Field("weight", "float"), Field("view", "text"))


class Run(NamedTuple):
    """What `foreign` printed."""

    version: str
    records: list[dict[str, Any]]
    error: str = ""


def made(place: Path, name: str, *, several: bool, fields: Fields = ()) -> list[Example]:
    """A set of a format, whose readers get it as ``OUT``, and what is in it."""
    sink = load_sink(name)
    fields = fields or (BOXES, *([BOX_LABELS] if several else []), CAPTIONS, *ATTRIBUTES)
    info = DatasetInfo(
        tuple((each, f"class {each}") for each in CLASS_IDS),
        multilabel=several,
        size=(16, 20) if sink.pixels else None,
        fields=tuple(field for field in fields if field.kind in sink.keeps),
    )
    examples = [_example(number, info, pixels=sink.pixels) for number in range(COUNT)]
    write(sink, places(sink, place), info, examples)
    return examples


def _example(number: int, info: DatasetInfo, *, pixels: bool) -> Example:
    labels = tuple(range(number % 3)) if info.multilabel else (number % CLASSES,)
    late = number >= LATE and number != COUNT - 1
    boxes = ((0.125, 0.25, 0.5, 0.75), (0.0, 0.0, 1.0, 0.5))[: 1 + number % 2]
    said = {
        **({"boxes": boxes, "captions": (f"Caption {number}.", "Röntgen.")} if late else {}),
        **({"box_labels": (number % CLASSES,) * len(boxes)} if late else {}),
        **({"age": 60 + number} if late else {}),
        **({"weight": number + 0.5} if number % 2 == 0 else {}),
        **({"view": "PA"} if number not in (0, COUNT - 1) else {}),
    }
    kept = {field.name for field in info.fields}
    encoded = bytes(range(16)) * 60 if pixels else picture(5 * number)
    return Example(
        key=f"a/{number:02d}.JPEG",
        encoded=encoded,
        format="RAW" if pixels else "JPEG",
        height=16,
        width=20,
        colorspace="RGB",
        labels=labels,
        synset=info.identifiers(labels),
        class_name=info.names(labels),
        fields={name: value for name, value in said.items() if name in kept},
    )


def ran(format_name: str, reader: str, places: Sequence[Path]) -> list[Run]:
    """What a reader gives of each set; nothing if it is not installed."""
    package, _ = READERS[format_name, reader]
    environment = {**os.environ, "HF_HOME": f"{places[0]}.cache", "HF_HUB_OFFLINE": "1"}
    python = os.environ.get(f"DATAPREP_{package.upper()}_PYTHON", sys.executable)
    if python == sys.executable:
        paths = [os.environ.get("PYTHONPATH"), str(FOREIGN) if FOREIGN.exists() else None]
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    else:
        environment.pop("PYTHONPATH", "")  # whose packages are for this interpreter
    answer = places[0].with_name("answer.json")
    words = (format_name, reader, answer, *places)
    done = subprocess.run(
        [python, "-W", "ignore", Path(__file__).with_name("foreign.py"), *map(str, words)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    if "PackageNotFoundError" in done.stderr:
        return []
    assert done.returncode == 0, done.stderr
    return [Run(**found) for found in json.loads(answer.read_text("utf-8"))]


# --- What a reader made of our values, in a few words ---


def turned(ours: Any, theirs: Any) -> str:
    """``yes``, or in which form, or as what the value is given."""
    words: list[str] = []
    if theirs == "decoded":
        return "decoded"
    if theirs is None or (theirs == [] and ours):
        return "**no**"
    if isinstance(theirs, dict):  # bytes or uint8s
        ((kind, data),) = theirs.items()
        words.append(kind)
        theirs = data if kind == "bytes" or _is_vector(ours) else bytes(data).decode()
    elif isinstance(theirs, list) and theirs and isinstance(theirs[0], dict):
        words += theirs[0]
        theirs = [text for each in theirs for text in each.values()]
    if isinstance(theirs, list) and len(theirs) == 1 and not isinstance(ours, list):
        words.append("in a list")
        (theirs,) = theirs
    if isinstance(theirs, str) and isinstance(ours, int):
        words.append("text")
        theirs = int(theirs)
    if isinstance(theirs, float) and isinstance(ours, int):
        words.append("float")
    if _is_vector(ours) and isinstance(theirs, list) and len(theirs) == CLASSES:
        words.append("0 or 1 a class" if type(theirs[0]) is int else "0.0 or 1.0 a class")
        theirs = [label for label, flag in enumerate(theirs) if flag]
    if isinstance(ours, int) and theirs == ours + 1:
        words.append("1 more")
    elif isinstance(ours, list) and ours and theirs == ours[0]:
        words.append("**only the first**")
    elif isinstance(ours, str) and isinstance(theirs, str) and theirs.endswith(f"_{ours}"):
        words.append("behind its number")
    elif isinstance(ours, str) and isinstance(theirs, int):
        words.append("**a number**")
    elif ours == f"{theirs}.JPEG":
        words.append("without `.JPEG`")
    elif theirs != ours:
        words.append("**another**")
    return ", ".join(words) or "yes"


def _is_vector(ours: Any) -> bool:
    return isinstance(ours, list) and all(isinstance(it, int) for it in ours)


def missing(theirs: Mapping[str, Any], name: str) -> str:
    """What a reader gives of an attribute that an image lacks."""
    if name not in theirs:
        return "no key"
    value = theirs[name]
    value = value.get("bytes", value) if isinstance(value, dict) else value
    if value in (-1, "none"):
        return "the default asked"
    if value is None or value != value or value in ("", -(2**63)):
        return {str: "`''`", float: "NaN", int: "-2^63"}.get(type(value), "null")
    return f"**`{value!r}`**" if isinstance(value, str) else "**not the default asked**"


def row(reader: str, runs: Sequence[Run], sets: Sequence[Sequence[Example]]) -> str:
    """A line of the table of a format; runs and sets are with one label, and with several."""
    said: dict[str, list[tuple[str, str]]] = {name: [] for name in COLUMNS}
    notes = []
    for several, (run, examples) in enumerate(zip(runs, sets, strict=True)):
        records = [record for record in run.records if "raises" not in record]
        notes += [record["raises"] for record in run.records if "raises" in record] + [run.error]
        assert run.error or len(records) == COUNT, f"{reader}: {len(records)} records"
        for example, record in zip(examples, records or [{}] * COUNT, strict=True):
            for name, ours in _ours(example, several=bool(several)).items():
                kind = KINDS.get(name, "")
                if ours is not None:
                    word = "**raises**" if run.error else turned(ours, record.get(name))
                    said[PLACES.get(name, name)].append((kind, word))
                elif kind and any(name in each for each in records):
                    said["missing"].append(("", missing(record, name)))
    cells = [_cell(said[name]) for name in COLUMNS]
    text = "; ".join(dict.fromkeys(_short(note) for note in notes if note))
    return f"| {reader} | {runs[0].version} | {' | '.join(cells)} | {text} |\n"


def _cell(said: Sequence[tuple[str, str]]) -> str:
    """The words, each once, of kinds only where these differ."""
    words = dict.fromkeys(word for _, word in said)
    if len(words) > 1:
        words = dict.fromkeys(f"{kind}: {it}" if kind and it != "yes" else it for kind, it in said)
    return ", ".join(words) or NOTHING


def _ours(example: Example, *, several: bool) -> dict[str, Any]:
    """What should be given, as JSON has it; None where the format or the example has none."""
    fields = {name: example.fields.get(name) for name in ("boxes", "box_labels", "captions")}
    labels = list(example.labels)
    return {
        **({"labels": labels} if several else {"label": labels[0]}),
        "image": hashlib.sha256(example.encoded).hexdigest(),
        "key": example.key,
        **{name: json.loads(json.dumps(value)) for name, value in fields.items()},
        **{name: example.fields.get(name) for name in KINDS},
    }


def _short(error: str) -> str:
    """The part of an error that says what is wrong; of which column comes first, it is not."""
    found = _WRONG.search(error)
    text = found[0] if found else error.splitlines()[0]
    text = re.sub("column '[^']+'", "a column", text)
    return f"`{text[:120]}`"


_WRONG = re.compile(
    r"Couldn't cast.*|Feature: .*found|Length of all .* same length|rec file provide .* set to 1"
)


def numbers(form: str, reader: str, runs: Sequence[Run]) -> str:
    """A line of the table of what stands for the first class, ``n01440764``."""
    cells = []
    for number, name, run in zip((CLASSES, 1), ("label", "labels"), runs, strict=False):
        records = [record for record in run.records if "raises" not in record]
        value = records[number].get(name) if records else None  # that of an image of this class
        value = f"uint8 {value['uint8s']}" if isinstance(value, dict) else value
        cells.append(NOTHING if value is None else f"`{value}`")
    cells += [NOTHING] * (2 - len(cells))
    return f"| {form} | {reader} | {' | '.join(cells)} |\n"


def lines(form: str, reader: str, place: Path) -> tuple[str, str] | None:
    """Both lines of a reader; None if it is not installed."""
    kinds = (False,) if (form, reader) in ONE_LABEL else (False, True)
    places = [place / str(several) for several in kinds]
    sets = [made(out, form, several=it) for out, it in zip(places, kinds, strict=True)]
    runs = ran(form, reader, places)
    return (row(reader, runs, sets), numbers(form, reader, runs)) if runs else None


def without_version(line: str) -> str:
    """Releases may differ from the one that the page names."""
    return re.sub(r"^(\| [^|]+ \|) [\w.+]+ \|", r"\1 |", line)


HEADINGS = len(COLUMNS) + 3  # with the reader, its version, and what it raises
NUMBERS = "What stands for the first class"


def standing(text: str, form: str, reader: str) -> tuple[re.Match[str], re.Match[str]]:
    """Where both lines of a reader stand in the page."""
    found = []
    for heading, name in ((form, reader), (NUMBERS, f"{form} | {reader}")):
        part = rf"\n##+ {re.escape(heading)}\n(?:(?!\n#)[\s\S])*?\n(\| {re.escape(name)} \|.*\n)"
        line = re.search(part, text)
        assert line, f"{PAGE} has no line of {name} below {heading}"
        found.append(line)
    return found[0], found[1]


def main() -> None:
    """Write the lines of the readers that are installed."""
    for form, reader in READERS:
        if not any(word in f"{form}/{reader}" for word in sys.argv[1:] or [""]):
            continue
        with TemporaryDirectory() as place:
            found = lines(form, reader, Path(place))
        if found is None:
            sys.stderr.write(f"{form}, {reader}: not installed\n")
            continue
        for number, new in enumerate(found):
            text = PAGE.read_text("utf-8")
            start, end = standing(text, form, reader)[number].span(1)
            PAGE.write_text(text[:start] + new + text[end:], "utf-8")


if __name__ == "__main__":
    main()
