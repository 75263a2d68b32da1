"""The findings of ChestX-ray14."""

from __future__ import annotations

from typing import Final

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
