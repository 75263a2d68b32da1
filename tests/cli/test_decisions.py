"""``select --decisions``: what people decided, in one run; and a set that was cleaned grows."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import dataprep
from dataprep.tables.decisions import Decision, write_decisions
from tests.cli.test_select import refused, select, write_csv
from tests.conftest import FORMATS, Cli, Raw, leftovers, make, rows_of
from tests.finished_sets import examples_of, keys_of, manifest_of, shards_of

WORKERS = ("--workers", 1)
SPLITS = {"train": ("cat", "catt", "dog", "fox"), "test": ("cat", "dog")}


def draw(raw: Path, split: str, name: str, numbers: Iterable[int]) -> None:
    folder = raw / split / name
    folder.mkdir(parents=True, exist_ok=True)
    for number in numbers:
        seed = int(hashlib.md5(f"{split}{name}{number}".encode()).hexdigest()[:6], 16)
        Image.new("RGB", (16, 16), (seed >> 16, seed >> 8 & 255, seed & 255)).save(
            folder / f"{number}.jpg", "JPEG"
        )


def numbered(split: str, numbers: Sequence[int]) -> list[int]:
    """No name is in both splits."""
    return [number + 100 * (split == "test") for number in numbers]


def folders(raw: Path, numbers: Sequence[int]) -> Raw:
    for split, names in SPLITS.items():
        for name in names:
            draw(raw, split, name, numbered(split, numbers if name != "fox" else numbers[:2]))
    return Raw(raw, ("--workers", "1"), "folder")


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Raw:
    return folders(tmp_path_factory.mktemp("raw"), range(6))


@pytest.fixture(scope="module")
def before(raw: Raw, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(raw, tmp_path_factory.mktemp("made") / "before").out


def key(out: Path, split: str, name: str, number: int) -> str:
    """As the set calls an image of these folders."""
    (found,) = (it for it in keys_of(out, split) if it.endswith(f"{name}/{number}.jpg"))
    return found


def decisions(out: Path, path: Path) -> Path:
    """Of each kind; the class fox is emptied."""
    lines = [
        Decision(key(out, "train", "cat", 0), "train", "leave_out", "", "mm", "blurred"),
        Decision(key(out, "train", "cat", 1), "train", "label", "dog", "mm"),
        Decision(key(out, "train", "dog", 2), "train", "label", "cat", "mm"),
        Decision(key(out, "train", "dog", 2), "train", "leave_out", "", "jd"),  # which counts
        Decision(key(out, "train", "dog", 3), "train", "split", "test", "jd"),
        Decision(key(out, "train", "dog", 3), "train", "label", "cat", "jd"),
        Decision(key(out, "train", "dog", 4), "train", "sure", "", "jd"),
        Decision(key(out, "train", "dog", 5), "train", "note", "", "jd", "lovely"),
        Decision(key(out, "train", "fox", 0), "", "leave_out"),
        Decision(key(out, "train", "fox", 1), "", "label", "hound"),
        Decision("class:catt", "", "label", "cat", "mm"),
        Decision("class:dog", "", "label", "hound", "mm"),
    ]
    write_decisions(path, lines)
    return path


def contents(out: Path) -> dict[tuple[str, str], tuple[Any, ...]]:
    """Of each image what trains: its class by name, its bytes."""
    return {
        (split, example.key): (example.synset, example.class_name, example.encoded)
        for split in manifest_of(out)["splits"]
        for example in dataprep.open(out, split)
    }


def test_what_was_decided_is_as_if_it_had_been_listed_so(
    cli: Cli, raw: Raw, before: Path, tmp_path: Path
) -> None:
    path = decisions(before, tmp_path / "decisions.csv")
    said = select(cli, before, "--to", tmp_path / "out", "--decisions", path, "--num_shards", 2)
    out = tmp_path / "out"
    assert "32 images: 3 left out, 19 relabelled, 1 moved, 29 written\n" in said
    assert "catt is cat now, dog is hound now, fox is dropped, since no image is of it" in said
    assert manifest_of(out)["classes"] == [["cat", "cat"], ["hound", "hound"]]
    (source,) = manifest_of(out)["lineage"]
    assert source["selected"].keys() == {"decided"}
    decided = source["selected"]["decided"]
    assert decided["files"] == [hashlib.sha256(path.read_bytes()).hexdigest()]
    assert (decided["left_out"], decided["relabelled"], decided["moved"]) == (3, 19, 1)
    assert decided["classes"] == {"catt": "cat", "dog": "hound"}
    assert decided["input"] == manifest_of(before)["input"]
    assert {row["reason"] for row in rows_of(out) if row["status"] == "excluded"} == {
        "left out (--decisions)", "moved to test (--decisions)"
    }  # fmt: skip
    # The same as a listing of it.
    listed: list[tuple[str, str, str]] = [("path", "label", "split")]
    for split, names in SPLITS.items():
        for name in names:
            for number in numbered(split, range(6 if name != "fox" else 2)):
                label = {"catt": "cat", "dog": "hound", "fox": "hound"}.get(name, name)
                place = f"{split}/{name}/{number}.jpg"
                if place in ("train/cat/0.jpg", "train/dog/2.jpg", "train/fox/0.jpg"):
                    continue
                label = {"train/cat/1.jpg": "hound", "train/dog/3.jpg": "cat"}.get(place, label)
                listed.append((place, label, "test" if place == "train/dog/3.jpg" else split))
    words = ("--listing", write_csv(tmp_path / "listing.csv", listed), "--num_shards", 2)
    once = make(Raw(raw.path, ("--workers", "1"), "folder"), tmp_path / "once", *words).out
    assert sorted(map(repr, contents(out).values())) == sorted(map(repr, contents(once).values()))
    assert cli("verify", out, "--level", "decode").code == 0
    assert leftovers(out) == []


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["no.jpg,train,label,cat,,"], "1 line not about one image that is taken: no.jpg (0 imag"),
        (["no.jpg,train,split,test,,"], "1 line not about one image that is taken: no.jpg"),
        (["{cat},train,label,cow,,"], "no class cow; expected one of the data set, or the new na"),
        (["{cat},train,split,a/b,,"], "split a/b: a split's name has the characters a-z"),
        (["class:cow,,label,cat,,"], "class:cow: there is no such class; expected one of cat, ca"),
        (["class:cat,,label,,,"], "has 0 labels, expected exactly one"),
        (["{cat},train,sure,,a,", "{cat},train,leave_out,,b,"], "sure (a), leave_out (b); agree"),
        (["{cat},train,label,dog,a,", "{cat},,label,fox,b,"], "label dog (a), label fox (b); agr"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    cli: Cli, before: Path, tmp_path: Path, lines: list[str], said: str
) -> None:
    path = tmp_path / "decisions.csv"
    text = "\n".join(["key,split,decision,value,who,note", *lines, ""])
    path.write_text(text.replace("{cat}", key(before, "train", "cat", 0)))
    assert said in refused(cli, before, "--to", tmp_path / "out", "--decisions", path)
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_several_files_other_options_and_names_of_no_image(
    cli: Cli, before: Path, tmp_path: Path
) -> None:
    """They agree with --relabel and --exclude, or contradict them."""
    cat, dog = (key(before, "train", name, 0) for name in ("cat", "dog"))
    write_decisions(tmp_path / "a.csv", [Decision(cat, "train", "leave_out", "", "mm")])
    write_decisions(tmp_path / "b.csv", [Decision("no.jpg", "", "leave_out", "", "jd"),
                                         Decision(dog, "", "label", "cat")])  # fmt: skip
    labels = write_csv(tmp_path / "labels.csv", [("key", "label"), (dog, "cat")])
    left = write_csv(tmp_path / "left.csv", [("split", "key"), ("train", cat)])
    words = (before, "--decisions", f"{tmp_path / 'a.csv'},{tmp_path / 'b.csv'}")
    said = select(cli, *words, "--to", tmp_path / "out", "--relabel", labels, "--exclude", left)
    assert "32 images: 1 left out, 1 relabelled, 31 written; 1 name there that no image" in said
    assert len(manifest_of(tmp_path / "out")["classes"]) == 4  # none was emptied
    labels = write_csv(tmp_path / "labels.csv", [("key", "label"), (dog, "fox")])
    assert "gets two different labels or splits" in refused(
        cli, *words, "--to", tmp_path / "other", "--relabel", labels
    )
    assert "does not exist" in refused(cli, before, "--to", tmp_path / "c", "--decisions", "no")


def test_an_emptied_class_is_kept_where_the_list_has_it(
    cli: Cli, before: Path, tmp_path: Path
) -> None:
    (tmp_path / "classes.txt").write_text("fox\ndog\ncat\n")
    write_decisions(
        tmp_path / "d.csv",
        [Decision("class:fox", "", "label", "cat"), Decision("class:catt", "", "label", "cat")],
    )
    words = ("--decisions", tmp_path / "d.csv", "--classes", tmp_path / "classes.txt")
    select(cli, before, "--to", tmp_path / "out", *words)
    assert [name for name, _ in manifest_of(tmp_path / "out")["classes"]] == ["fox", "dog", "cat"]
    assert {example.class_name for example in examples_of(tmp_path / "out")} == {"cat", "dog"}


def listed(raw: Raw, out: Path, lines: list[tuple[object, ...]], *words: object) -> Path:
    table = write_csv(out.with_suffix(".csv"), lines)
    return make(raw, out, "--listing", table, *words).out


def test_boxes_are_of_the_classes_that_theirs_became(cli: Cli, raw: Raw, tmp_path: Path) -> None:
    corners = ("xmin", "ymin", "xmax", "ymax")
    lines: list[tuple[object, ...]] = [("path", "label", *corners)]
    for number, names in enumerate((("catt", "dog"), ("fox",), ("cat", "catt"), ("dog",))):
        place = f"train/cat/{number}.jpg"
        lines += [(place, name, 1, 1, 9, 9 + at) for at, name in enumerate(names)]
    out = listed(raw, tmp_path / "made", lines)
    merged = [
        Decision("class:catt", "", "label", "cat"),
        Decision("class:dog", "", "label", "hound"),
    ]
    path = tmp_path / "d.csv"
    write_decisions(path, [*merged, Decision("train/cat/1.jpg", "", "label", "cat")])
    select(cli, out, "--to", tmp_path / "out", "--decisions", path)
    classes = [name for name, _ in manifest_of(tmp_path / "out")["classes"]]
    assert classes == ["cat", "hound", "fox"]  # of which there is a box
    found = {
        example.key: (
            {classes[label] for label in example.labels},
            [classes[label] for label in example.fields["box_labels"]],
        )
        for example in examples_of(tmp_path / "out")
    }
    assert found == {
        "train/cat/0.jpg": ({"cat", "hound"}, ["cat", "hound"]),
        "train/cat/1.jpg": ({"cat"}, ["fox"]),
        "train/cat/2.jpg": ({"cat"}, ["cat", "cat"]),
        "train/cat/3.jpg": ({"hound"}, ["hound"]),
    }
    write_decisions(path, [Decision("class:fox", "", "label", "")])
    said = refused(cli, out, "--to", tmp_path / "no", "--decisions", path)
    assert "images have boxes of classes, which need one" in said


def test_of_several_labels_one_is_taken_away(cli: Cli, raw: Raw, tmp_path: Path) -> None:
    labels = ("a|b", "b", "c|b", "c", "")
    lines = [(f"train/cat/{number}.jpg", text) for number, text in enumerate(labels)]
    words = ("--label_separator", "|")
    out = listed(raw, tmp_path / "made", [("path", "label"), *lines], *words)
    path = tmp_path / "d.csv"
    last = Decision("train/cat/3.jpg", "", "label", "a|c")
    write_decisions(path, [Decision("class:b", "", "label", ""), last])
    said = select(cli, out, "--to", tmp_path / "out", "--decisions", path)
    assert "5 images: 0 left out, 4 relabelled, 5 written" in said
    lines = [(place, text.replace("b", "").strip("|")) for place, text in lines]
    lines[3] = (lines[3][0], "a|c")
    once = listed(raw, tmp_path / "once", [("path", "label"), *lines], *words)
    assert shards_of(tmp_path / "out") == shards_of(once)
    assert manifest_of(tmp_path / "out")["classes"] == [["a", "a"], ["c", "c"]]


def test_what_was_moved_stays_there_for_splits_from(cli: Cli, raw: Raw, tmp_path: Path) -> None:
    flat = Raw(raw.path / "train", (*raw.options, "--fractions", "train=0.5,test=0.5"), "folder")
    out, path = make(flat, tmp_path / "made").out, tmp_path / "d.csv"
    first = keys_of(out)[0]
    write_decisions(path, [Decision(first, "train", "split", "test")])
    select(cli, out, "--to", tmp_path / "out", "--decisions", path)
    again = make(flat, tmp_path / "again", "--splits_from", tmp_path / "out").out
    assert {*keys_of(again, "test")} == {first, *keys_of(out, "test")}
    assert "has all images already" in cli(*flat.command(tmp_path / "out", "--append")).out


# --- a set that was cleaned grows ---


@pytest.mark.parametrize("sink", ["tfrecord", "webdataset"])
def test_cleaned_and_added_to_twice_is_all_prepared_and_cleaned(
    cli: Cli, raw: Raw, tmp_path: Path, sink: str
) -> None:
    grows = raw.copy(tmp_path / "raw")
    words = FORMATS[sink]
    first = make(grows, tmp_path / "first", *words).out
    path = decisions(first, tmp_path / "decisions.csv")
    out = tmp_path / "cleaned"
    select(cli, first, "--to", out, "--decisions", path)
    again = grows.command(out, *words, "--append")
    assert "has all images already" in cli(*again).out
    for numbers in (range(10, 40), range(40, 70)):
        for split, names in SPLITS.items():
            for name in names:
                if name != "fox" or numbers[0] == 40:  # which comes back, the second time
                    draw(grows.path, split, name, numbered(split, numbers))
        draw(grows.path, "test", "owl", numbers)  # a new one
        result = cli(*again)
        assert result.code == 0, result
        assert leftovers(out) == []
    select(cli, make(grows, tmp_path / "all", *words).out, "--to", tmp_path / "once",
           "--decisions", path)  # fmt: skip
    once = tmp_path / "once"
    assert contents(out) == contents(once)
    assert len(contents(out)) > 400
    mine, theirs = manifest_of(out), manifest_of(once)
    assert sorted(mine["classes"]) == sorted(theirs["classes"])
    assert mine["totals"] == theirs["totals"]
    assert mine["excluded"] == theirs["excluded"]
    assert len(mine["generations"]) == 3
    (source,), (other,) = mine["lineage"], theirs["lineage"]
    for name in ("files", "classes", "left_out", "moved", "input"):  # also what it was made from
        assert source["selected"]["decided"][name] == other["selected"]["decided"][name]
    gone = [[row for row in rows_of(each) if row["status"] == "excluded"] for each in (out, once)]
    assert gone[0] == gone[1]
    assert cli("verify", out, "--level", "decode").code == 0
    assert "has all images already" in cli(*again).out


def test_only_what_decisions_alone_were_applied_to_grows(
    cli: Cli, raw: Raw, before: Path, tmp_path: Path
) -> None:
    path = decisions(before, tmp_path / "decisions.csv")
    for number, more in enumerate((["--sink", "lmdb"], ["--resize", "8"], ["--where", "true"])):
        out = tmp_path / f"{number}"
        select(cli, before, "--to", out, "--decisions", path, *more)
        result = cli(*raw.command(out, "--append", *([] if "true" in more else more)))
        assert "cannot grow by --append: it was converted; let its source grow" in result.error


def test_raw_data_that_changed_is_refused(cli: Cli, raw: Raw, before: Path, tmp_path: Path) -> None:
    out, changed = tmp_path / "out", raw.copy(tmp_path / "raw")
    path = decisions(before, tmp_path / "decisions.csv")
    select(cli, before, "--to", out, "--decisions", path)
    there = changed.path / "train" / "dog" / "3.jpg"  # it was moved
    there.rename(tmp_path / "kept.jpg")
    result = cli(*changed.command(out, "--append"))
    assert "dog/3.jpg is not in that split of the raw data any more" in result.error
    shutil.copy(changed.path / "train" / "dog" / "4.jpg", there)
    with there.open("ab") as file:
        file.write(bytes(99))
    result = cli(*changed.command(out, "--append"))
    assert "have another size, or other labels or fields" in result.error
