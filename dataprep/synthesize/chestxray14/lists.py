"""The two official lists of a made-up ChestX-ray14, cut by patient."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from dataprep.synthesize.chestxray14.labels import LabelTable, patient_of
from dataprep.synthesize.chestxray14.numbers import LEAST_PATIENTS, default_split
from dataprep.synthesize.imagenet.plan import keyed_seed

_PUBLISHED_IMAGES, _PUBLISHED_TEST = 112_120, 25_596


def made_up_lists(table: LabelTable, seed: int) -> tuple[bytes, bytes]:
    """Cut the images into the two official lists, by patient.

    Args:
        table: the images.
        seed: decides which patients are for the test.

    Returns:
        ``train_val_list.txt`` and ``test_list.txt``: as the original's, a name a line, by
        name, and no newline at the end. 23 % of the images or somewhat more are for the
        test; of two patients or more, each list has one. The first has one that is for training
        by default and one for validation, if there are such two and a third one.
    """
    sizes = Counter(patient_of(name) for name, _ in table.images)
    shuffled = sorted(sizes, key=lambda patient: keyed_seed(seed, "list", patient))
    wanted, chosen = len(table.images) * _PUBLISHED_TEST / _PUBLISHED_IMAGES, 0
    test: set[str] = set()
    reserved = _reserved(shuffled)
    for patient in shuffled:
        if chosen < wanted and patient not in reserved:
            test.add(patient)
            chosen += sizes[patient]
    parts: tuple[list[str], list[str]] = ([], [])
    for name, _ in table.images:
        parts[patient_of(name) in test].append(name)
    return "\n".join(parts[0]).encode("ascii"), "\n".join(parts[1]).encode("ascii")


def _reserved(shuffled: Sequence[str]) -> set[str]:
    """The patients who must not be for the test: the first of each other split."""
    if len(shuffled) < LEAST_PATIENTS:
        return set(shuffled[:1])
    first: dict[str, str] = {}
    for patient in shuffled:
        first.setdefault(default_split(int(patient)), patient)
    return set(first.values())
