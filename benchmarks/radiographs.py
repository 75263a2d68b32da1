"""What do archives cost beside folders?

``dataprep chestxray14`` on drawn radiographs of the real size, 8-bit grey PNGs of 1024 x 1024: the
same images in folders, tars, gzipped tars and zips, all in the same rounds; kept, and resized to
JPEGs.
"""

from __future__ import annotations

from functools import partial

from benchmarks import raw_sets
from benchmarks.measure import Setting, Speed, Usage, prepared, rounds, two_sizes
from benchmarks.tables import Row, beside
from dataprep.synthesize.chestxray14 import ChestXray14Layout

_LAYOUTS: tuple[ChestXray14Layout, ...] = ("folders", "tar", "tar.gz", "zip")
# Of so few patients perhaps none would be for validation.
_USUAL = ("--num_shards", "4", "--validation_fraction", "0")
_VARIANTS = {
    "kept, default check": (),
    "--resize 256 --encoding jpeg": ("--resize", "256", "--encoding", "jpeg"),
}


def measure(setting: Setting) -> list[Row]:
    """Every layout, kept and resized."""
    patients = setting.size((40, 240), (10, 30))
    counts = {}
    for each in patients:
        folders, *_ = (raw_sets.radiographs(setting, each, layout) for layout in _LAYOUTS)
        counts[sum(path.suffix == ".png" for path in raw_sets.contents(folders))] = each
    small, large = counts

    def ours(layout: ChestXray14Layout, options: tuple[str, ...], images: int) -> Usage:
        raw = raw_sets.radiographs(setting, counts[images], layout)
        return prepared(setting, raw, *_USUAL, *options, dataset="chestxray14")

    def speed(layout: ChestXray14Layout, options: tuple[str, ...]) -> Speed:
        return two_sizes(partial(ours, layout, options), small, large)

    rows = []
    for name, options in _VARIANTS.items():
        measured = rounds(
            setting,
            f"radiographs: {name}",
            {layout: partial(speed, layout, options) for layout in _LAYOUTS},
            warm_up=[partial(ours, layout, options, small) for layout in _LAYOUTS],
        )
        base, *others = _LAYOUTS
        for layout in others:
            rows += beside(
                f"radiographs, {name}: {layout} against {base}",
                *(measured[layout], measured[base]),
                whole=f"{large:,} images",
            )
    return rows
