"""The findings and the options of ChestX-ray14, and what they mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from dataprep.datasets.base import Option
from dataprep.datasets.splits import Cut, check_shares, parse_seed, parse_share
from dataprep.errors import UsageError

# The order of CheXNet's output (arnoweng/CheXNet, model.py), which most code has followed.
FINDINGS: Final = (
    "Atelectasis",
    "Cardiomegaly",
    "Effusion",
    "Infiltration",
    "Mass",
    "Nodule",
    "Pneumonia",
    "Pneumothorax",
    "Consolidation",
    "Edema",
    "Emphysema",
    "Fibrosis",
    "Pleural_Thickening",
    "Hernia",
)
ORDERS: Final = {"canonical": FINDINGS, "alphabetical": tuple(sorted(FINDINGS))}
NO_FINDING: Final = "No Finding"

BY_PATIENT: Final = "random-by-patient"
SIDE_LISTS: Final = ("train_val_list", "test_list")
_OFFICIAL: Final = "official"
_TEST_FRACTION: Final = "0.2"

OPTIONS: Final = (
    Option(
        "label_order",
        "Order of the 14 findings: CheXNet's, or by name.",
        default="canonical",
        choices=tuple(ORDERS),
    ),
    Option(
        "split",
        "Test images by the official lists, or all splits at random. Validation is at random in "
        "both. Always whole patients.",
        default=_OFFICIAL,
        choices=(_OFFICIAL, BY_PATIENT),
    ),
    Option(
        "validation_fraction",
        "Share of the patients of the official training and validation list, or of all patients "
        f"with --split {BY_PATIENT}; 0 for no validation split.",
        default="0.1",
        metavar="SHARE",
    ),
    Option(
        "test_fraction",
        f"Share of all patients, only with --split {BY_PATIENT}, and then {_TEST_FRACTION} if not "
        "given; 0 for no test split.",
        metavar="SHARE",
    ),
    Option(
        "split_seed",
        "Random seed of the splits cut at random.",
        default="0",
        metavar="INTEGER",
    ),
    Option("labels", "Label CSV, if not in the raw directory.", file=True, metavar="FILE"),
    Option(
        "train_val_list",
        "Official list of training and validation images, if not in the raw directory.",
        file=True,
        metavar="FILE",
    ),
    Option(
        "test_list",
        "Official list of test images, if not in the raw directory.",
        file=True,
        metavar="FILE",
    ),
    Option("bbox_csv", "Box list, if not in the raw directory.", file=True, metavar="FILE"),
)


@dataclass(frozen=True, slots=True)
class Settings:
    """What the options mean, apart from where files are.

    Attributes:
        label_order: a key of `ORDERS`.
        official: whether the official lists say what is test.
        cut: divides all patients, or those of the official training and validation list.
        splits: the splits there are, in the order they are prepared.
    """

    label_order: str
    official: bool
    cut: Cut
    splits: tuple[str, ...]

    @property
    def order(self) -> tuple[str, ...]:
        """The findings; a finding's position is its label."""
        return ORDERS[self.label_order]


def read_settings(options: Mapping[str, str]) -> Settings:
    """Check the options' values.

    Raises:
        UsageError: a value is no share or seed, shares leave nothing for training, or an option
            would have no effect with the other ones.
    """
    official = options["split"] == _OFFICIAL
    _refuse_idle(options, official)
    validation = parse_share("validation_fraction", options["validation_fraction"])
    test = Fraction(0)
    if not official:
        test = parse_share("test_fraction", options.get("test_fraction", _TEST_FRACTION))
        check_shares("validation_fraction and --test_fraction", (validation, test))
    shares = (("test", test), ("validation", validation))
    seed = parse_seed("split_seed", options["split_seed"])
    there = {"train": True, "validation": validation > 0, "test": official or test > 0}
    return Settings(
        options["label_order"],
        official,
        Cut(seed, shares[1:] if official else shares, "train"),
        tuple(split for split, exists in there.items() if exists),
    )


def _refuse_idle(options: Mapping[str, str], official: bool) -> None:
    other = BY_PATIENT if official else _OFFICIAL
    for option in ("test_fraction",) if official else SIDE_LISTS:
        if option in options:
            raise UsageError(
                f"--{option} has no effect with --split {options['split']}; leave it out or use "
                f"--split {other}"
            )
