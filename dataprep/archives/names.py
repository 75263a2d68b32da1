"""Which file names are examples. The same rule holds in directories and in archives."""

from __future__ import annotations

_IMAGE_SUFFIXES = (".jpeg", ".jpg", ".png")
# Left behind by macOS archivers, ext4's fsck and Synology's indexer.
_CLUTTER_FOLDERS = frozenset({"__MACOSX", "lost+found", "@eaDir"})


def is_image_name(name: str) -> bool:
    """Whether a file of this name is taken for an image."""
    return not name.startswith(".") and name.lower().endswith(_IMAGE_SUFFIXES)


def refusal(name: str) -> str:
    """Why a file of this name is left out; empty for an image's name.

    The TPU script takes ``*.JPEG`` only, and so ignores hidden files such as macOS's ``._x.JPEG``;
    here .jpg and .png count as well, in any case.
    """
    if is_image_name(name):
        return ""
    if name.startswith("."):
        return "hidden file"
    return "not an image name (expected .jpeg, .jpg or .png)"


def is_clutter_folder(name: str) -> bool:
    """Whether a folder of this name belongs to the system and not to a data set."""
    return name.startswith(".") or name in _CLUTTER_FOLDERS
