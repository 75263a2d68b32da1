"""Makes raw trees of any size, by repeating real or made-up images under names of their own."""

from __future__ import annotations

import os
import shutil
from itertools import cycle, islice
from pathlib import Path

from PIL import Image, UnidentifiedImageError

from benchmarks.setting import CannotRunError, Setting
from dataprep_schemas import imagenet_classes

_SYNTHETIC = (40, 10)  # classes, images of each: as many as the sample of real images has
_CHUNK = 1 << 20


def tree(setting: Setting, images: int) -> Path:
    """A raw directory with ``train/<synset>/*.JPEG``, as the TPU script wants it.

    Files are copies, not links, so that reading them costs what reading a real tree costs. What
    an earlier benchmark made is used again. All of it is in the page cache afterwards.
    """
    directory = setting.work / f"raw-{images}"
    if not directory.exists():
        setting.say(f"making a tree of {images:,} images")
        partial = directory.with_name(f"{directory.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        originals = _originals(setting)
        for number, (synset, original) in enumerate(islice(cycle(originals), images)):
            folder = partial / "train" / synset
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(original, folder / f"{synset}_{number}.JPEG")
        partial.replace(directory)
        os.sync()
    _warm(directory)
    return directory


def files(directory: Path) -> list[Path]:
    """The images of a tree, sorted."""
    return sorted(directory.glob("train/*/*.JPEG"))


def _originals(setting: Setting) -> list[tuple[str, Path]]:
    """Class and file of every ordinary image; what needs repair no other tool here could read."""
    source = setting.images or _synthetic(setting)
    folders = sorted(path for path in source.iterdir() if path.is_dir())
    synsets = [synset for synset, _ in imagenet_classes()]
    if not {folder.name for folder in folders} <= set(synsets):
        folders = folders[: len(synsets)]
        names = dict(zip(folders, synsets, strict=False))
    else:
        names = {folder: folder.name for folder in folders}
    found = [
        (names[folder], path)
        for folder in folders
        for path in sorted(folder.iterdir())
        if path.is_file() and _is_ordinary(path)
    ]
    if not found:
        raise CannotRunError(f"--images: no JPEG files in class directories of {source.name}")
    return found


def _synthetic(setting: Setting) -> Path:
    from dataprep.synthesize.imagenet import synthesize_imagenet

    directory = setting.work / "synthetic"
    if not directory.exists():
        classes, each = _SYNTHETIC
        setting.say(f"drawing {classes * each} images")
        synthesize_imagenet(
            directory, classes=classes, images_per_class=each, validation_images=1, layout="tree"
        )
    return directory / "train"


def _is_ordinary(path: Path) -> bool:
    try:
        with Image.open(path) as image:
            return image.format == "JPEG" and image.mode in ("L", "RGB")
    except (UnidentifiedImageError, OSError):
        return False


def _warm(directory: Path) -> None:
    for path in files(directory):
        with path.open("rb", buffering=0) as file:
            while file.read(_CHUNK):
                pass
