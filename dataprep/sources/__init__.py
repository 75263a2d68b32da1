"""Where images come from: one class a data set finds, lists and labels its raw files.

Nothing here decodes an image or writes a file. `find` looks at directories and archive headers,
`scan` lists one directory or archive at a time, and `read_image` fetches bytes by offset.
"""

from __future__ import annotations

from dataprep.sources.base import Dataset, Found, ScanUnit
from dataprep.sources.imagenet import ImageNet
from dataprep.sources.reading import close_archives, read_image

__all__ = ["Dataset", "Found", "ImageNet", "ScanUnit", "close_archives", "read_image"]
