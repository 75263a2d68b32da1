"""The findings and the options of ChestX-ray14."""

from __future__ import annotations

from typing import Final

from dataprep.datasets.base import Option

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
OFFICIAL: Final = "official"
TEST_FRACTION: Final = "0.2"

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
        default=OFFICIAL,
        choices=(OFFICIAL, BY_PATIENT),
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
        f"Share of all patients, only with --split {BY_PATIENT}, and then {TEST_FRACTION} if not "
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
