"""Validation labels are looked up by number or by position, and never misaligned."""

from __future__ import annotations

import pytest

from dataprep.datasets import ImageNet
from dataprep.errors import SourceError
from dataprep_schemas import imagenet_classes, imagenet_validation_synsets

OFFICIAL = imagenet_validation_synsets()
CLASSES = [synset for synset, _ in imagenet_classes()]
LISTS = ("synset_labels.txt", "imagenet_2012_validation_synset_labels.txt")


def labels(raw):
    return {row.key: CLASSES[row.labels[0]] for row in raw.scan("validation")[0]}


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("layout", ["validation_flat", "validation_archive"])
def test_a_full_list_goes_by_number_also_for_a_subset(raw, layout, name):
    getattr(raw, layout)()
    rotated = [*OFFICIAL[1:], OFFICIAL[0]]
    raw.labels(rotated, name)
    assert labels(raw) == {key: rotated[int(key[15:23]) - 1] for key in raw.validation}
    assert f"labels from {name}" in ImageNet().find(raw.path, ["validation"]).description[0]


@pytest.mark.parametrize("layout", ["validation_flat", "validation_archive"])
def test_a_list_of_one_line_a_file_goes_by_sorted_position(raw, layout):
    getattr(raw, layout)()
    raw.labels(CLASSES[10:15])
    assert labels(raw) == dict(zip(sorted(raw.validation), CLASSES[10:15], strict=True))


def test_a_list_by_position_serves_names_without_numbers(raw):
    raw.write("val/b.jpg", b"b")
    raw.write("val/a.JPEG", b"a")
    raw.write("synset_labels.txt", f"\ufeff{CLASSES[5]}\r\n{CLASSES[1]}\r\n\r\n".encode())
    assert labels(raw) == {"a.JPEG": CLASSES[5], "b.jpg": CLASSES[1]}


@pytest.mark.parametrize("count", [1, 4, 6, 49_999, 50_001])
def test_a_list_that_fits_neither_way_is_refused(raw, count):
    raw.validation_flat()
    raw.labels([*OFFICIAL, OFFICIAL[0]][:count])
    message = rf"synset_labels.txt has {count} lines for 5 validation images; expected 50000 lines"
    with pytest.raises(SourceError, match=message):
        raw.scan("validation")


@pytest.mark.parametrize(
    "name",
    [
        "ILSVRC2012_val_00000000.JPEG",
        "ILSVRC2012_val_00050001.JPEG",
        "ILSVRC2012_val_1.JPEG",
        "ILSVRC2012_val.JPEG",
        "n01440764_10026.JPEG",
        "cat.png",
    ],
)
def test_a_name_without_a_number_in_range_is_refused(raw, name):
    raw.validation_flat()
    raw.write(f"validation/{name}", b"x")
    with pytest.raises(SourceError, match=f"validation image {name} has no number from 1 to 50000"):
        raw.scan("validation")


def test_two_files_of_one_number_are_refused(raw):
    raw.validation_flat()
    raw.write("validation/ILSVRC2012_val_00000007.png", b"x")
    with pytest.raises(SourceError, match=r"00000007.JPEG and .*00000007.png have the same image"):
        raw.scan("validation")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "synset_labels.txt is empty"),
        (b"n01440764\nn00000000\n", "line 2 of synset_labels.txt is 'n00000000'; expected one of"),
        (b"490\n361\n", "line 1 of .* development kit numbers classes differently"),
        (b"n01440764\n\nn01440764\n", "line 2 of synset_labels.txt is ''"),
        (b"\xff\xfe\x00", "line 1 of synset_labels.txt is"),
    ],
)
def test_a_list_of_anything_but_classes_is_refused(raw, content, message):
    raw.validation_flat()
    raw.write("synset_labels.txt", content)
    with pytest.raises(SourceError, match=message) as caught:
        ImageNet().find(raw.path, ["validation"])
    assert str(caught.value).isprintable()


def test_two_lists_must_agree(raw):
    raw.validation_flat()
    raw.labels(OFFICIAL, LISTS[0])
    raw.labels(OFFICIAL, LISTS[1])
    assert labels(raw) == {key: raw.official(key) for key in raw.validation}
    raw.labels(OFFICIAL[::-1], LISTS[1])
    with pytest.raises(SourceError, match=f"{LISTS[0]} and {LISTS[1]} differ; expected one list"):
        ImageNet().find(raw.path, ["validation"])


def test_class_folders_are_labels(raw):
    raw.write(f"validation/{CLASSES[0]}/ILSVRC2012_val_00000001.JPEG", b"x")
    raw.labels(CLASSES[1:2])
    assert labels(raw) == {"ILSVRC2012_val_00000001.JPEG": CLASSES[0]}
