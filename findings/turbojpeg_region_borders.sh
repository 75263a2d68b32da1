#!/usr/bin/env bash
# libjpeg-turbo 2.1.92 (TurboJPEG 3), as the wheel turbojpeg 0.0.2 carries it: a part of a JPEG whose
# colour is stored for two pixels at a time (4:2:2, 4:2:0) that is decoded alone, by
# tj3SetCroppingRegion and tj3Decompress8, has other pixels in its first and last column than the
# whole picture has there, where the part is not at the picture's own border; all others are equal.
# Colour between stored samples is drawn from both neighbours, and the part has none beyond its sides.
# Above and below it has. Seen are, for 4:4:4, 4:2:2 and 4:2:0, columns of 64 that differ:
#
#   444: []
#   422: [0, 63]
#   420: [0, 63]
#
# So who decodes parts for training asks for two more pixels on each side. This exits with 1 where
# that changes. Needs Python 3.10 or 3.11 on x86-64, for which there are wheels.
set -eu
W=$(mktemp -d); trap 'rm -rf "$W"' EXIT; cd "$W"
python3 -m venv venv
venv/bin/pip install -q turbojpeg==0.0.2 numpy==1.26.4 pillow==12.0.0 2> pip.log || { cat pip.log; exit 2; }
venv/bin/python - <<'PY'
import ctypes, io, sys
from ctypes import c_char_p, c_int, c_size_t, c_void_p
from importlib.metadata import files
import numpy as np
from PIL import Image

class Region(ctypes.Structure):
    _fields_ = [(name, c_int) for name in "xywh"]

path = next(str(it.locate()) for it in files("turbojpeg") if it.name.startswith("libturbojpeg"))
library = ctypes.CDLL(path)
library.tj3Init.restype = c_void_p
library.tj3DecompressHeader.argtypes = [c_void_p, c_char_p, c_size_t]
library.tj3SetCroppingRegion.argtypes = [c_void_p, Region]
library.tj3Decompress8.argtypes = [c_void_p, c_char_p, c_size_t, c_void_p, c_int, c_int]
handle = library.tj3Init(1)

def decoded(data, x, y, width, height):
    assert library.tj3DecompressHeader(handle, data, len(data)) == 0
    assert library.tj3SetCroppingRegion(handle, Region(x, y, width, height)) == 0
    pixels = np.empty((height, width, 3), np.uint8)
    assert library.tj3Decompress8(handle, data, len(data), pixels.ctypes.data, 0, 0) == 0  # TJPF_RGB
    return pixels

noise = np.random.default_rng(1).integers(0, 256, (128, 128, 3), np.uint8)
found = {}
for name, subsampling in (("444", 0), ("422", 1), ("420", 2)):
    file = io.BytesIO()
    Image.fromarray(noise).save(file, "JPEG", quality=90, subsampling=subsampling)
    whole, part = decoded(file.getvalue(), 0, 0, 128, 128), decoded(file.getvalue(), 32, 32, 64, 64)
    differ = (whole[32:96, 32:96] != part).any(axis=(0, 2))
    found[name] = np.flatnonzero(differ).tolist()
    print(f"{name}: {found[name]}")
sys.exit(found != {"444": [], "422": [0, 63], "420": [0, 63]})
PY
