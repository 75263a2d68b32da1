#!/usr/bin/env bash
# Hugging Face's datasets 5.2.0 (and 3.6.0, 4.0.0): load_dataset("webdataset") takes the types of all
# samples from the first five. If a JSON list is empty in all of these, its type is null, and the first
# sample whose list is not empty stops it, though all samples have the same members and fields:
#
#   TypeError: Couldn't cast array of type list<item: double> to null
#
# So whether archives of a detection set are read, in which some images have no box, depends on the
# order of the samples: seen are 8 samples of 8, but for `late`, which stops so. The same holds for
# lists of labels and captions. With features= all are read. This exits with 1 where that changes.
set -eu
W=$(mktemp -d); trap 'rm -rf "$W"' EXIT; cd "$W"
python3 -m venv venv
venv/bin/pip install -q datasets==5.2.0 pillow==12.0.0 2> pip.log || { cat pip.log; exit 2; }
export HF_HUB_OFFLINE=1 HF_HOME=$W/home
venv/bin/python - <<'PY'
import io, json, sys, tarfile
from PIL import Image as Picture
from datasets import Features, Image, Value, load_dataset

def write(path, lists):
    with tarfile.open(path, "w") as archive:
        for number, boxes in enumerate(lists):
            image = io.BytesIO()
            Picture.new("RGB", (8, 8)).save(image, "JPEG")
            said = json.dumps({"key": str(number), "boxes": boxes}).encode()
            for suffix, data in (("jpg", image.getvalue()), ("json", said)):
                info = tarfile.TarInfo(f"{number:03d}.{suffix}")
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))

def read(path, **more):
    try:
        found = load_dataset("webdataset", data_files=path, split="train", cache_dir="c" + path, **more)
        return str(len(found))
    except Exception as error:
        return repr(error.__cause__ or error)

box = [[0.1, 0.2, 0.3, 0.4]]
write("without.tar", [[]] * 8)
write("first.tar", [box] * 5 + [[]] * 3)
write("late.tar", [[]] * 5 + [box] * 3)
write("mixed.tar", [[], box] * 4)
text = Value("string")
said = {"key": text, "boxes": [[Value("float64")]]}
typed = Features({"__key__": text, "__url__": text, "jpg": Image(), "json": said})
found = {name: read(f"{name}.tar") for name in ("without", "first", "late", "mixed")}
found["late, with features"] = read("late.tar", features=typed)
for name, what in found.items():
    print(f"{name}: {what[:150]}")
right = found["without"] == found["first"] == found["late, with features"] == "8"
sys.exit(0 if right and found["mixed"] == "8" and "Couldn't cast" in found["late"] else 1)
PY
