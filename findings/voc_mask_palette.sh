#!/usr/bin/env bash
# Masks of classes are PNGs with a palette in Pascal VOC and in what labelling tools write: the place in
# the palette is the class. Of one such file, with the classes 0, 1, 15 and 255, six readers give three
# different things, none of them an error or a warning:
#
#   Pillow 12.0.0                                       the classes
#   OpenCV 4.12.0, IMREAD_UNCHANGED                     (2, 2, 3): colours
#   OpenCV 4.12.0, IMREAD_GRAYSCALE                     [0, 38, 147, 220]: greys of the colours
#   imageio 2.37.2                                      (2, 2, 3): colours
#   TensorFlow 2.21.0, decode_png(channels=1)           [0, 38, 147, 220]
#   TensorFlow 2.21.0, decode_png(channels=0)           (2, 2, 3): colours
#
# A network with 256 outputs trains on 38 and 147 in silence. Of a grey PNG of the same numbers all give
# the classes. This exits with 1 where that changes.
set -eu
W=$(mktemp -d); trap 'rm -rf "$W"' EXIT; cd "$W"
python3 -m venv venv
venv/bin/pip install -q pillow==12.0.0 numpy==2.2.6 opencv-python-headless==4.12.0.88 imageio==2.37.2 \
  tensorflow-cpu==2.21.0 2> pip.log || { cat pip.log; exit 2; }
export TF_CPP_MIN_LOG_LEVEL=3
venv/bin/python - <<'PY' 2> log || { cat log; exit 1; }
import sys
import cv2, imageio.v3, numpy as np, tensorflow as tf
from PIL import Image

classes = np.array([[0, 1], [15, 255]], np.uint8)
def colour(number):  # as VOC's development kit has it
    return [sum((number >> (3 * bit + channel) & 1) << 7 - bit for bit in range(3)) for channel in range(3)]
mask = Image.frombytes("P", (2, 2), classes.tobytes())
mask.putpalette([level for number in range(256) for level in colour(number)])
mask.save("palette.png")
Image.fromarray(classes).save("grey.png")

def decoded(channels):
    return lambda path: tf.io.decode_png(tf.io.read_file(path), channels=channels).numpy().squeeze()

readers = {
    "Pillow": lambda path: np.asarray(Image.open(path)),
    "OpenCV, IMREAD_UNCHANGED": lambda path: cv2.imread(path, cv2.IMREAD_UNCHANGED),
    "OpenCV, IMREAD_GRAYSCALE": lambda path: cv2.imread(path, cv2.IMREAD_GRAYSCALE),
    "imageio": imageio.v3.imread,
    "TensorFlow, channels=1": decoded(1),
    "TensorFlow, channels=0": decoded(0),
}
seen = {}
for name, read in readers.items():
    found = read("palette.png")
    seen[name] = "classes" if np.array_equal(found, classes) else (
        f"{found.shape}: colours" if found.ndim == 3 else str(found.ravel().tolist()))
    grey = np.array_equal(read("grey.png"), classes)
    print(f"{name}: {seen[name]}; of a grey one {'the classes' if grey else 'others'}")
    seen[name] += "" if grey else ", grey differs"
expected = ["classes", "(2, 2, 3): colours", "[0, 38, 147, 220]", "(2, 2, 3): colours", "[0, 38, 147, 220]", "(2, 2, 3): colours"]
sys.exit([*seen.values()] != expected)
PY
