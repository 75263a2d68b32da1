"""The box list of a made-up ChestX-ray14, in the exact published form."""

from __future__ import annotations

from dataprep.synthesize.chestxray14.labels import LabelTable, picture_seed
from dataprep.synthesize.chestxray14.radiograph import lesion_box

_BOX_HEADER = "Image Index,Finding Label,Bbox [x,y,w,h],,,"

# The eight findings that the box list has, in its own words.
_BOXED = {
    "Atelectasis": "Atelectasis",
    "Cardiomegaly": "Cardiomegaly",
    "Effusion": "Effusion",
    "Infiltration": "Infiltrate",
    "Mass": "Mass",
    "Nodule": "Nodule",
    "Pneumonia": "Pneumonia",
    "Pneumothorax": "Pneumothorax",
}
_BOX_GRID = 1024  # boxes are in pixels of the published size, whatever the size here
_BOXED_EVERY = 4  # the original has boxes on 1 % of the images with a finding


def made_up_boxes(table: LabelTable, seed: int) -> bytes:
    """Make up a box list, around the shadows that the pictures show.

    Args:
        table: the images. Of those with a finding that can have a box, every fourth gets its
            boxes, and the first of each finding.
        seed: that of the pictures.

    Returns:
        The bytes of ``BBox_List_2017.csv``.
    """
    lines = [_BOX_HEADER]
    boxed = 0
    seen: set[str] = set()
    for name, findings in table.images:
        tokens = [token for token in findings.split("|") if token in _BOXED]
        boxed += bool(tokens)
        if boxed % _BOXED_EVERY and seen.issuperset(tokens):
            continue
        seen.update(tokens)
        for token in tokens:
            cells = ",".join(f"{edge:.15g}" for edge in _box(picture_seed(seed, name), token))
            lines.append(f"{name},{_BOXED[token]},{cells}")
    return "".join(f"{line}\n" for line in lines).encode("ascii")


def _box(seed: int, finding: str) -> tuple[float, float, float, float]:
    """Left, top, width and height, inside the picture."""
    left, top, width, height = lesion_box(seed, finding)
    right, bottom = min(left + width, 1.0), min(top + height, 1.0)
    left, top = max(left, 0.0), max(top, 0.0)
    return left * _BOX_GRID, top * _BOX_GRID, (right - left) * _BOX_GRID, (bottom - top) * _BOX_GRID
