"""Made-up patients: their label CSV, in the exact published forms.

The frequencies are those of Data_Entry_2017_v2020.csv. A patient is a function of the seed
and the number, so that a larger set contains a smaller one.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from dataprep.synthesize.chestxray14.labels import CSV_2017, CSV_2020, LabelTable
from dataprep.synthesize.chestxray14.numbers import patient_numbers
from dataprep.synthesize.imagenet.plan import keyed_seed

CsvVersion = Literal["2017", "2020"]

_HEADER = (
    "Image Index,Finding Labels,Follow-up #,Patient ID,Patient Age,Patient Gender,"
    "View Position,OriginalImage[Width,Height],OriginalImagePixelSpacing[x,y]"
)

# The most frequent sets of findings and their number of images, then rare ones, among them
# some of those whose findings are not in alphabetical order. They stand for 836 sets.
_LABEL_SETS = {
    "No Finding": 60361,
    "Infiltration": 9547,
    "Atelectasis": 4215,
    "Effusion": 3955,
    "Nodule": 2705,
    "Pneumothorax": 2194,
    "Mass": 2139,
    "Effusion|Infiltration": 1603,
    "Atelectasis|Infiltration": 1350,
    "Consolidation": 1310,
    "Atelectasis|Effusion": 1165,
    "Pleural_Thickening": 1126,
    "Cardiomegaly": 1093,
    "Emphysema": 892,
    "Infiltration|Nodule": 829,
    "Atelectasis|Effusion|Infiltration": 737,
    "Fibrosis": 727,
    "Edema": 628,
    "Cardiomegaly|Effusion": 484,
    "Consolidation|Infiltration": 441,
    "Infiltration|Mass": 420,
    "Effusion|Pneumothorax": 403,
    "Effusion|Mass": 402,
    "Atelectasis|Consolidation": 398,
    "Mass|Nodule": 394,
    "Edema|Infiltration": 392,
    "Infiltration|Pneumothorax": 345,
    "Emphysema|Pneumothorax": 337,
    "Consolidation|Effusion": 337,
    "Pneumonia": 322,
    "Effusion|Pleural_Thickening": 251,
    "Atelectasis|Consolidation|Effusion": 200,
    "Infiltration|Pneumonia": 199,
    "Fibrosis|Infiltration": 185,
    "Nodule|Pleural_Thickening": 140,
    "Edema|Infiltration|Pneumonia": 137,
    "Hernia": 110,
    "Cardiomegaly|Edema|Effusion|Infiltration": 20,
    "Atelectasis|Consolidation|Effusion|Infiltration|Pneumonia": 10,
    "Effusion|Infiltration|Nodule|Mass|Pneumothorax": 8,
    "Mass|Atelectasis": 8,
    "Nodule|Mass": 8,
    "Infiltration|Effusion": 8,
    "Pneumothorax|Pneumonia": 8,
}
_SEVERAL = 20_796  # images with more than one finding; the sets above have fewer
_SHOWN_SEVERAL = sum(count for findings, count in _LABEL_SETS.items() if "|" in findings)
_SETS = tuple(_LABEL_SETS)
_SET_WEIGHTS = tuple(
    count * _SEVERAL / _SHOWN_SEVERAL if "|" in findings else count
    for findings, count in _LABEL_SETS.items()
)
# What chance would leave out of small sets: the first image of these patients has it.
_FIXED_LABELS = {3: "Hernia", 4: "Nodule|Mass", 5: "Infiltration", 6: "Edema|Effusion|Pneumonia"}
_KEPT = 0.4  # how often a patient's next image has the findings of the one before
# Real patients have up to 184 images and 3.6 in the mean; these have that mean, too.
_IMAGE_COUNTS = range(1, 21)
_IMAGE_WEIGHTS = tuple(count**-1.48 for count in _IMAGE_COUNTS)
# Width, height, pixel spacing in millimetres as the original spells it, share.
_DETECTORS = (
    ("2500,2048", "0.168,0.168", 37),
    ("2992,2991", "0.14300000000000002,0.14300000000000002", 22),
    ("3056,2544", "0.139,0.139", 15),
    ("2048,2500", "0.171,0.171", 10),
    ("2021,2021", "0.19431099999999998,0.19431099999999998", 5),
    ("2674,2991", "0.14300000000000002,0.14300000000000002", 5),
)
_OLD_AGES = {2: "411", 7: "412", 40: "414"}  # patients whose first age is a slip of the pen
_AGES_WITH_UNIT_EVERY = 5  # of so many patients one has ages such as 058Y in the 2017 CSV


@dataclass(frozen=True)
class _Visit:
    suffix: int
    findings: str
    age: int
    view: str
    detector: tuple[str, str, int]


def made_up_labels(patients: int, version: CsvVersion, seed: int) -> LabelTable:
    """Make up a label CSV.

    Args:
        patients: how many; their numbers are those of `patient_numbers`.
        version: ``2017`` has 12 fields in its header and odd ages; ``2020`` has sorted
            each patient's rows by age and numbered them anew.
        seed: another one gives other patients.

    Returns:
        The CSV and its images.

    Raises:
        UsageError: too few patients for three splits, or more than ChestX-ray14 has.
    """
    old = version == "2017"
    lines = [_HEADER + ("," if old else "")]
    images: list[tuple[str, str]] = []
    for patient in patient_numbers(patients):
        rng = random.Random(keyed_seed(seed, "patient", patient))  # noqa: S311
        gender = "M" if rng.random() < 0.565 else "F"
        visits = list(_visits(rng, patient))
        images += ((_name(patient, visit), visit.findings) for visit in visits)
        if old:
            visits.sort(key=lambda visit: visit.suffix)
        for position, visit in enumerate(visits):
            age = _old_age(patient, visit) if old else str(visit.age)
            lines.append(
                f"{_name(patient, visit)},{visit.findings},{position},{patient},{age},{gender},"
                f"{visit.view},{visit.detector[0]},{visit.detector[1]}"
            )
    images.sort()
    content = "".join(f"{line}\n" for line in lines).encode("ascii")
    return LabelTable(CSV_2017 if old else CSV_2020, content, tuple(images))


def _visits(rng: random.Random, patient: int) -> Iterator[_Visit]:
    """A patient's images, in the order of age."""
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
        view = "PA" if rng.random() < 0.6 else "AP"
        detector = rng.choices(_DETECTORS, [share for _, _, share in _DETECTORS])[0]
        yield _Visit(suffix, shown, age, view, detector)
        age = min(age + (rng.random() < 0.2), 95)


def _name(patient: int, visit: _Visit) -> str:
    return f"{patient:08d}_{visit.suffix:03d}.png"


def _old_age(patient: int, visit: _Visit) -> str:
    if visit.suffix == 0 and patient in _OLD_AGES:
        return _OLD_AGES[patient]
    return f"{visit.age:03d}Y" if patient % _AGES_WITH_UNIT_EVERY == 1 else str(visit.age)
