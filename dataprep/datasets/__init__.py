"""Where images come from: one class a data set finds, lists and labels its raw files.

Nothing here decodes an image or writes a file. `find` looks at directories and archive headers,
`scan` lists one directory or archive at a time, and `read_image` fetches bytes by offset. What a
data set of a third party needs is here; docs/datasets.md shows one.
"""

from __future__ import annotations

from dataprep.archives.containers import container_kind, list_container, stat_fingerprint
from dataprep.archives.listing import Listing, StoredImage
from dataprep.datasets.base import Dataset, Found, ScanUnit, wanted_splits
from dataprep.datasets.imagenet.dataset import ImageNet
from dataprep.datasets.reading import close_archives, read_image
from dataprep.datasets.splits import Cut, parse_share
from dataprep.options import option
from dataprep.rows import Ignored, Row, Scanned, Unmatched
from dataprep_schemas.fields import Field

__all__ = [
    "Cut",
    "Dataset",
    "Field",
    "Found",
    "Ignored",
    "ImageNet",
    "Listing",
    "Row",
    "ScanUnit",
    "Scanned",
    "StoredImage",
    "Unmatched",
    "close_archives",
    "container_kind",
    "list_container",
    "option",
    "parse_share",
    "read_image",
    "stat_fingerprint",
    "wanted_splits",
]
