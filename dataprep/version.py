"""The version of this program, which manifests name."""

from typing import Final

__version__: Final = "1.0.0"
