"""Which numbers made-up patients have, so that each split of the default options has some."""

from __future__ import annotations

from itertools import count

from dataprep.datasets.chestxray14.options import OPTIONS, read_settings
from dataprep.errors import UsageError

LEAST_PATIENTS = 3  # one each for train, validation and test
MOST_PATIENTS = 30_805  # as many as the original has

_CUT = read_settings({option.name: option.default for option in OPTIONS if option.default}).cut


def patient_numbers(patients: int) -> tuple[int, ...]:
    """The numbers of so many patients, ascending.

    Args:
        patients: how many.

    Returns:
        1 and so on, as in the original; of a few, the last is the first that ``dataprep
        chestxray14`` takes for validation, which is cut by a hash of the number. More patients
        have the numbers of fewer, too.

    Raises:
        UsageError: too few for three splits, or more than ChestX-ray14 has.
    """
    if not LEAST_PATIENTS <= patients <= MOST_PATIENTS:
        raise UsageError(
            f"patients is {patients}; it must be between {LEAST_PATIENTS}, one each for train, "
            f"validation and test, and {MOST_PATIENTS}"
        )
    validation = next(number for number in count(1) if default_split(number) == "validation")
    return (*range(1, patients), max(patients, validation))


def default_split(number: int) -> str:
    """The split of a patient of the official training and validation list, by default."""
    return _CUT.split_of(str(number))
