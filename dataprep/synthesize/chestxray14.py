"""A made-up ChestX-ray14: official layout, names, labels and lists, radiograph-like pictures.

Frequencies and forms are those of Data_Entry_2017_v2020.csv. A patient is a function of the
number, so that a larger set contains a smaller one.
"""

from __future__ import annotations

import gzip
import random
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from functools import partial
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Literal, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from dataprep.synthesize.files import (
    NamedFile,
    Written,
    drawn,
    keyed_seed,
    require,
    saved,
    spoil,
    write_folder,
    write_tar,
    writing_to,
)

ChestXray14Layout: TypeAlias = Literal["tar.gz", "tar", "zip", "folders", "flat"]
Special: TypeAlias = Literal["rgba", "palette", "sixteen_bit", "truncated", "missing", "unlisted"]

LABELS = "Data_Entry_2017_v2020.csv"
TRAIN_VAL_LIST = "train_val_list.txt"
TEST_LIST = "test_list.txt"
BOX_LIST = "BBox_List_2017.csv"

_FOLDER = "images"  # of the images, in the archives as on disk
_ZIP_DATE = (2017, 12, 1, 0, 0, 0)  # any constant keeps the archives equal from run to run
_LEVEL = 1  # PNGs are compressed already

# One each for train, validation and test. By default `dataprep chestxray14` takes patients for
# validation by a hash of their number; the first whom it takes is this one.
LEAST_PATIENTS, MOST_PATIENTS, _VALIDATION_PATIENT = 3, 30_805, 24
_TEST_SHARE = 25_596 / 112_120

_HEADER = (
    "Image Index,Finding Labels,Follow-up #,Patient ID,Patient Age,Patient Gender,"
    "View Position,OriginalImage[Width,Height],OriginalImagePixelSpacing[x,y]"
)
# Sets of findings and their share of the images in per mille: the frequent ones as published, one
# whose findings are not in alphabetical order among the others.
_RARE = ("Consolidation", "Pleural_Thickening", "Cardiomegaly", "Emphysema", "Fibrosis", "Edema")
_LABEL_SETS = {
    "No Finding": 540,
    "Infiltration": 100,
    "Atelectasis": 45,
    "Effusion": 40,
    **dict.fromkeys(("Nodule", "Pneumothorax", "Mass"), 22),
    **dict.fromkeys(_RARE, 9),
    **dict.fromkeys(("Pneumonia", "Hernia"), 2),
    **dict.fromkeys(("Effusion|Infiltration", "Atelectasis|Infiltration"), 45),
    **dict.fromkeys(("Atelectasis|Effusion|Infiltration", "Infiltration|Pneumonia"), 20),
    "Nodule|Mass": 15,
}
_SETS, _SET_WEIGHTS = tuple(_LABEL_SETS), tuple(_LABEL_SETS.values())
# What chance would leave out of small sets: the first image of these patients has it.
_FIXED_LABELS = {3: "Hernia", 4: "Nodule|Mass", 5: "Infiltration", 6: "Edema|Effusion|Pneumonia"}
_KEPT = 0.4  # how often a patient's next image has the findings of the one before
# Real patients have up to 184 images and 3.6 in the mean; these have that mean, too.
_IMAGE_COUNTS = range(1, 21)
_IMAGE_WEIGHTS = tuple(count**-1.48 for count in _IMAGE_COUNTS)
_DETECTOR = "2500,2048,0.168,0.168"  # width, height, pixel spacing in millimetres

# The eight findings that the box list has, in its own words.
_BOXED = {
    **{name: name for name in ("Atelectasis", "Cardiomegaly", "Effusion", "Mass", "Nodule")},
    **{name: name for name in ("Pneumonia", "Pneumothorax")},
    "Infiltration": "Infiltrate",
}
_BOX_GRID = 1024  # boxes are in pixels of the published size, whatever the size here
_BOXED_EVERY = 4  # the original has boxes on 1 % of the images with a finding

# Positions in the order of names. They start at 1 so that the first image is an ordinary
# one, and are low so that the smallest sets have them.
_ODD: dict[int, Special] = {1: "rgba", 2: "palette", 3: "sixteen_bit", 4: "rgba"}
_DEFECTS: dict[int, Special] = {5: "truncated", 6: "missing"}


def synthesize_chestxray14(
    directory: Path,
    *,
    patients: int = 60,
    archives: int = 12,
    layout: ChestXray14Layout = "tar.gz",
    size: int = 256,
    defects: bool = False,
) -> Written:
    """Write a made-up ChestX-ray14; equal arguments give equal bytes.

    Args:
        directory: where to; made if missing, else it must be empty.
        patients: how many, with 3.6 images each in the mean.
        archives: into how many to cut; fewer if there are fewer images.
        layout: ``tar.gz`` as published, ``tar``, ``zip`` as on Kaggle, ``folders`` as
            unpacked there, ``flat`` as one folder.
        size: pixels a side; the original has 1024.
        defects: truncate one image, leave out another, and add one that is not listed.

    Raises:
        UsageError: a number is impossible.
        DatasetError: the directory holds something, or cannot be written.
    """
    require("patients", patients, LEAST_PATIENTS, MOST_PATIENTS)
    require("size", size, 8, 4096)
    labels, listed = made_up_labels(patients)
    train_val, test = made_up_lists([name for name, _ in listed])
    documents = {
        LABELS: labels,
        TRAIN_VAL_LIST: "\n".join(train_val),
        TEST_LIST: "\n".join(test),
        BOX_LIST: made_up_boxes(listed),
    }
    special, sizes = _special(listed, defects=defects), list[int]()
    images = [image for image in listed if special.get(image[0]) != "missing"]
    images += [(name, "No Finding") for name, kind in special.items() if kind == "unlisted"]
    contents = drawn(partial(_encoded, size, special), images, sizes)
    files = ((name, content) for (name, _), content in zip(images, contents, strict=True))
    count = min(archives, len(images))
    with writing_to(directory), closing(contents):
        for name, text in documents.items():
            (directory / name).write_text(text, encoding="ascii")
        for number in range(1, count + 1):
            own = len(images) * number // count - len(images) * (number - 1) // count
            write_archive(directory, layout, number, islice(files, own))
    return Written(len(images), sum(sizes))


def made_up_labels(patients: int) -> tuple[str, list[tuple[str, str]]]:
    """Make up a label CSV of so many patients, at least three.

    They are numbered from 1, as in the original; of a few, the last is the first whom ``dataprep
    chestxray14`` takes for validation by default.

    Returns:
        The CSV in the form of 2020; and base name and findings of each image, by name.
    """
    lines, images = [_HEADER], []
    for patient in (*range(1, patients), max(patients, _VALIDATION_PATIENT)):
        rng = random.Random(keyed_seed(0, "patient", patient))  # noqa: S311 - no secret
        gender = "M" if rng.random() < 0.565 else "F"
        for rank, (suffix, findings, age, view) in enumerate(_visits(rng, patient)):
            name = f"{patient:08d}_{suffix:03d}.png"
            images.append((name, findings))
            lines.append(f"{name},{findings},{rank},{patient},{age},{gender},{view},{_DETECTOR}")
    return "".join(f"{line}\n" for line in lines), sorted(images)


def _visits(rng: random.Random, patient: int) -> Iterator[tuple[int, str, int, str]]:
    """Suffix, findings, age and view of a patient's images, in the order of age."""
    count = rng.choices(_IMAGE_COUNTS, _IMAGE_WEIGHTS)[0]
    # In one of the original's rows of five the suffix is not the rank of the age.
    first = rng.randrange(count) if rng.random() < 0.25 else 0
    age = min(max(round(rng.gauss(46.6, 16.6)), 1), 90)
    findings = ""
    for rank in range(count):
        if not findings or rng.random() >= _KEPT:
            findings = rng.choices(_SETS, _SET_WEIGHTS)[0]
        suffix = (first + rank) % count
        shown = _FIXED_LABELS.get(patient, findings) if suffix == 0 else findings
        yield suffix, shown, age, "PA" if rng.random() < 0.6 else "AP"
        age = min(age + (rng.random() < 0.2), 95)


def made_up_lists(names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Cut images into the official list for training and validation, and that for the test.

    Patients are in one of them only. Somewhat more than 23 % of the images are for the test, but
    none of a patient who is for training by default, nor of one for validation.
    """
    sizes = Counter(map(_patient, names))
    wanted, test = sum(sizes.values()) * _TEST_SHARE, set[int]()
    for patient in sorted(sizes, key=lambda patient: keyed_seed(0, "list", f"{patient:08d}")):
        if wanted > 0 and patient not in (1, _VALIDATION_PATIENT):
            test.add(patient)
            wanted -= sizes[patient]
    parts: tuple[list[str], list[str]] = ([], [])
    for name in names:
        parts[_patient(name) in test].append(name)
    return parts


def _patient(name: str) -> int:
    return int(name.partition("_")[0])


def made_up_boxes(images: Iterable[tuple[str, str]]) -> str:
    """Make up a box list, around the shadows that the pictures show.

    Of the images with a finding that can have a box, every fourth gets its boxes, and the first of
    each finding.
    """
    lines, number, seen = ["Image Index,Finding Label,Bbox [x,y,w,h],,,"], 0, set[str]()
    for name, findings in images:
        tokens = [token for token in findings.split("|") if token in _BOXED]
        number += bool(tokens)
        if number % _BOXED_EVERY == 0 or not seen.issuperset(tokens):
            seen.update(tokens)
            for token in tokens:
                box = lesion_box(_picture_seed(name), token)
                edges = ",".join(f"{edge * _BOX_GRID:.15g}" for edge in box)
                lines.append(f"{name},{_BOXED[token]},{edges}")
    return "".join(f"{line}\n" for line in lines)


def _special(listed: list[tuple[str, str]], *, defects: bool) -> dict[str, Special]:
    """What is odd, or wrong, with the image files, by name."""
    kinds = _ODD | (_DEFECTS if defects else {})
    special = {
        name: kinds[position] for position, (name, _) in enumerate(listed) if position in kinds
    }
    if defects:  # a name that the last patient could have and has not
        special[f"{_patient(listed[-1][0]):08d}_999.png"] = "unlisted"
    return special


def _picture_seed(name: str) -> int:
    return keyed_seed(0, "radiograph", name)


def _encoded(size: int, special: Mapping[str, Special], image: tuple[str, str]) -> bytes:
    """Make one image file; runs in several threads."""
    name, findings = image
    shown = [finding for finding in findings.split("|") if finding != "No Finding"]
    kind = special.get(name)
    encoded = saved(_picture(radiograph(_picture_seed(name), size, shown), kind), "PNG")
    return spoil(encoded, "truncated") if kind == "truncated" else encoded


def _picture(pixels: NDArray[np.uint8], special: Special | None) -> Image.Image:
    """Grey levels as the published files have them: 8 bits, or one of the odd kinds.

    Those are opaque RGBA; a palette that grows as the grey falls, so that who takes its indices for
    greys sees a negative; and 16 bits with the grey in the high byte and something in the low one.
    """
    if special == "rgba":
        return Image.fromarray(np.dstack([pixels, pixels, pixels, np.full_like(pixels, 255)]))
    if special == "palette":
        image = Image.fromarray(255 - pixels)
        image.putpalette([255 - index for index in range(256) for _ in range(3)])
        return image
    if special == "sixteen_bit":
        low = np.arange(len(pixels), dtype=np.uint16) % 256
        return Image.fromarray(pixels.astype(np.uint16) * 256 + low)
    return Image.fromarray(pixels)


def write_archive(
    directory: Path, layout: ChestXray14Layout, number: int, files: Iterable[NamedFile]
) -> None:
    """Write the images of one archive, one at a time."""
    path = directory / f"images_{number:03d}.{layout}"
    members = ((f"{_FOLDER}/{name}", content) for name, content in files)
    if layout == "flat":
        write_folder(directory / _FOLDER, files)
    elif layout == "folders":
        write_folder(directory / f"images_{number:03d}" / _FOLDER, files)
    elif layout == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in members:
                member = zipfile.ZipInfo(name, _ZIP_DATE)
                member.external_attr = 0o100644 << 16
                archive.writestr(member, content, zipfile.ZIP_DEFLATED, _LEVEL)
    elif layout == "tar":
        with path.open("wb") as stream:
            write_tar(stream, members)
    else:  # without name and time of day, for equal bytes
        with path.open("wb") as stream, gzip.GzipFile("", "wb", _LEVEL, stream, 0) as compressed:
            write_tar(cast(BinaryIO, compressed), members)


Plane = NDArray[np.float32]

# Deviation of the grain, of white; set by the size of the files: real ones have 400 KB.
_GRAIN = 0.0065


def radiograph(seed: int, size: int, findings: Iterable[str] = ()) -> NDArray[np.uint8]:
    """Draw a picture that looks a little like a chest radiograph from the front.

    Dark lungs with ribs between a bright middle and the chest wall, and the grain of the detector:
    PNG sizes and decode times follow from smooth shapes plus grain. The same numpy version on the
    same kind of processor gives the same pixels.

    Args:
        seed: any non-negative integer.
        size: pixels a side.
        findings: each leaves its shadow in its `lesion_box`.

    Returns:
        Grey levels, (size, size).
    """
    rng = np.random.default_rng(seed)
    right, down, heart, phase, brightness = rng.normal(size=5)
    centres = ((np.arange(size) + 0.5) * 2 / size - 1).astype(np.float32)
    x, y = centres - 0.04 * right, centres[:, np.newaxis] - 0.05 * down
    out = np.abs(x)
    body = _step(0.95 - out) * _step(y + 1.0 - 0.3 * _step(out - 0.5))
    grey = 0.04 + body * (0.62 + 0.12 * y - 0.2 * out**2)
    lungs = _step(1 - ((out - 0.37) / 0.28) ** 2 - ((y + 0.06) / 0.62) ** 2)
    ribs = 0.05 * np.cos((y - 0.4 * out**2) * (2 * np.pi / 0.175) + phase)
    grey += lungs * (0.2 + ribs - grey)
    bulge = _step(1 - ((x - 0.12) / (0.3 + 0.02 * heart)) ** 2 - ((y - 0.2) / 0.36) ** 2)
    grey += np.maximum(_step(0.14 - out), bulge) * (0.76 - grey)
    for finding in findings:
        left, top, side = _lesion(seed, finding)
        near = ((centres - left) ** 2 + (centres[:, np.newaxis] - top) ** 2) / side**2
        grey += 0.3 * np.clip(1 - 4 * near, 0, 1) * (1 - grey)
    grey += 0.02 * brightness + _GRAIN * rng.standard_normal((size, size), np.float32)
    levels: NDArray[np.uint8] = np.clip(grey * 255 + 0.5, 0, 255).astype(np.uint8)
    return levels


def lesion_box(seed: int, finding: str) -> tuple[float, float, float, float]:
    """Left, top, width and height of a finding's shadow; 1 is the side of the picture."""
    x, y, side = _lesion(seed, finding)
    return (x + 1 - side / 2) / 2, (y + 1 - side / 2) / 2, side / 2, side / 2


def _lesion(seed: int, finding: str) -> tuple[float, float, float]:
    """Centre and diameter of a finding's shadow in a lung; the picture goes from -1 to 1."""
    rng = np.random.default_rng(keyed_seed("lesion", seed, finding))
    x, y, side = rng.uniform((0.3, -0.4, 0.1), (0.5, 0.3, 0.5))
    return float(x * rng.choice((-1, 1))), float(y), float(side)


def _step(plane: Plane) -> Plane:
    """From 0 to 1 where the plane rises through 0, over a tenth."""
    return (plane * 10 + 0.5).clip(0, 1)
