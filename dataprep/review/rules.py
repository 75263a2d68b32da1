"""The rules of ``dataprep lint``: each one a query on the table of records of a data set.

A query gives a row a finding: ``text``, what is wrong in words; ``images``, those that show it,
each (split, key); the worst first. Queries read these tables, which `dataprep.review.findings`
makes:

* ``images``: the stored images, numbered in their order; ``labels`` as the class list's numbers,
  ``patient`` as text, null where no attribute tells; ``mask`` as (number, pixels), null without;
* ``twice``: hashes of the bytes of more than one of them;
* ``others``: every other row of the records;
* ``counted``: images by split and class, also where there are none;
* ``meant``: the ``numbers`` of masks that mean something, a row; null where that is not known;
* ``limits``: what is odd, in numbers, a row;
* ``near``: pairs of images that look nearly alike, see `dataprep.review.near`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from dataprep.review.near import CUT, MIDDLE, MIRRORED

# An error makes results wrong, a warning may, a note is what the user should know.
Severity = Literal["error", "warning", "note"]
_SPLITS: Final = "case split when 'test' then 0 when 'train' then 2 else 1 end"
_NAME: Final = "split || '/' || key"
_IMAGE: Final = "{split: split, key: key}"

# Groups of the same bytes, with what is needed to tell what is wrong with each.
_SAME: Final = f"""
select list({_NAME} order by {_SPLITS}, key) as names, xxh3,
       list({_IMAGE} order by {_SPLITS}, key) as images,
       count(distinct split) as splits, count(distinct labels) as labels
from images where xxh3 in (from twice)
group by xxh3
"""
CONFLICTING: Final = f"select images from ({_SAME}) where labels > 1"
"""The images of which people must say which label is right, whatever splits they are in."""
_SAME_TEXT: Final = "array_to_string(names[:4], ' = ') || if(len(names) > 4, ' = …', '')"

# Of two, the one to keep first: of test, then of validation; then the larger one.
_BETTER: Final = f"row({_SPLITS}, -width::bigint * height, -bytes, key)"
_SIDE: Final = (
    f"(select number, {{name: {_NAME}, split: split, labels: labels, image: {_IMAGE}, "
    f"better: {_BETTER}}} as side from images)"
)
_NEAR: Final = f"""
select distance, a.split != b.split as splits, a.labels != b.labels as labels,
       a.name || ' ~ ' || b.name || ': ' || distance || ' of 255 bits differ' ||
       case how when {MIRRORED} then ', mirrored' when {CUT} then ', one of them cut'
                when {MIDDLE} then ' in the middle' else '' end as text,
       [a.image, b.image] as images
from (
    select distance, how, if(one.side.better < other.side.better, one.side, other.side) as a,
           if(one.side.better < other.side.better, other.side, one.side) as b
    from near join {_SIDE} one on one.number = near.a join {_SIDE} other on other.number = near.b
)
"""


@dataclass(frozen=True, slots=True)
class Rule:
    """Something that should not be."""

    name: str
    level: Severity
    meaning: str  # of a finding, for a heading
    query: str
    # The images of a finding that are candidates for leaving out; copies are all but the first.
    drop: Literal["copies", "all", "none"] = "none"


def _odd(text: str, condition: str, worst: str) -> str:
    return (
        f"select {_NAME} || ': ' || {text} as text, [{_IMAGE}] as images from images "
        f"where {condition} order by {worst}, number"
    )


def _carries(pattern: str) -> str:
    """Of what a file has beside pixels, as `dataprep.tables.records.with_metadata` says it."""
    found = f"regexp_extract(reason, '(?:^|; )metadata: {pattern}', 1)"
    return _odd(found, f"{found} != ''", "split, key")


RULES: Final = (
    Rule(
        "leak",
        "error",
        "the same image, byte for byte, in two splits",
        f"select {_SAME_TEXT} as text, images from ({_SAME}) where splits > 1 order by text",
        drop="copies",
    ),
    Rule(
        "near-leak",
        "error",
        "nearly the same image in two splits",
        f"select text, images from ({_NEAR}) where splits order by distance, text",
        drop="copies",
    ),
    Rule(
        "patient",
        "error",
        "a patient in two splits (attribute patient_id or patient)",
        "select 'patient ' || patient || ' is in ' || string_agg(split, ', ' order by split) "
        "as text, list(image order by split) as images from (select patient, split, "
        f"min_by({_IMAGE}, number) as image from images where patient is not null group by all) "
        "group by patient having count(*) > 1 order by text",
    ),
    Rule(
        "conflict",
        "error",
        "the same image, byte for byte, under different labels",
        f"select {_SAME_TEXT} as text, images from ({_SAME}) where splits = 1 and labels > 1 "
        "order by text",
    ),
    Rule(
        "near-conflict",
        "warning",
        "nearly the same image under different labels",
        f"select text, images from ({_NEAR}) where not splits and labels order by distance, text",
    ),
    Rule(
        "one-split-class",
        "error",
        "a class that only one split has",
        "select class || ' (' || name || ') is only in ' || min(split) as text, [] as images "
        "from counted where images > 0 and (select count(distinct split) from counted) > 1 "
        "group by number, class, name having count(*) = 1 order by number",
    ),
    Rule(
        "empty-class",
        "error",
        "a class without images",
        "select class || ' (' || name || ')' as text, [] as images from counted "
        "group by number, class, name having sum(images) = 0 order by number",
    ),
    Rule(
        "copy",
        "warning",
        "the same image twice, byte for byte",
        f"select {_SAME_TEXT} as text, images from ({_SAME}) where splits = 1 and labels = 1 "
        "order by text",
        drop="copies",
    ),
    Rule(
        "near-copy",
        "warning",
        "nearly the same image twice",
        f"select text, images from ({_NEAR}) where not splits and not labels "
        "order by distance, text",
        drop="copies",
    ),
    Rule(
        "small-class",
        "warning",
        "a class with few images",
        "select split || ': ' || class || ' (' || name || ') has ' || images as text, "
        "[] as images from counted where images between 1 and (select fewest from limits) - 1 "
        "order by counted.images, split, number",
    ),
    Rule(
        "imbalance",
        "warning",
        "a split whose largest class has many times the images of its smallest",
        "select split || ': ' || max_by(class, images) || ' has ' || max(images) || ', ' "
        "|| min_by(class, images) || ' has ' || min(images) as text, [] as images from counted "
        "where images > 0 group by split having max(counted.images) > "
        "(select imbalance from limits) * min(counted.images) order by split",
    ),
    Rule(
        "blank",
        "warning",
        "nothing to be seen",
        _odd("'contrast ' || contrast", "contrast < (select flattest from limits)", "contrast"),
        drop="all",
    ),
    Rule(
        "uniform",
        "warning",
        "most of the picture has one grey level",
        _odd(
            "round(100 * flat)::integer || ' % are one level'",
            "contrast >= (select flattest from limits) and flat > 0.75",
            "flat desc",
        ),
    ),
    Rule(
        "dark",
        "warning",
        "very dark",
        _odd(
            "'mean grey level ' || brightness",
            "contrast >= (select flattest from limits) and brightness < 16",
            "brightness",
        ),
    ),
    Rule(
        "bright",
        "warning",
        "very bright",
        _odd(
            "'mean grey level ' || brightness",
            "contrast >= (select flattest from limits) and brightness > 239",
            "brightness desc",
        ),
    ),
    Rule(
        "tiny",
        "warning",
        "a side below 32 pixels",
        _odd("width || 'x' || height", "least(width, height) < 32", "least(width, height)"),
    ),
    Rule(
        "narrow",
        "warning",
        "one side more than 4 times the other",
        _odd(
            "width || 'x' || height",
            "greatest(width, height) > 4 * least(width, height)",
            "least(width, height) / greatest(width, height)",
        ),
    ),
    Rule(
        "odd-size",
        "warning",
        "16 times the pixels of the median image of its split, or a 16th",
        _odd(
            "width || 'x' || height",
            "width::bigint * height not between middle / 16 and middle * 16",
            "abs(ln(width::bigint * height / middle)) desc",
        ),
    ),
    Rule(
        "orientation",
        "warning",
        "stored with an EXIF orientation, by which not every reader turns it (--exif apply)",
        _carries("(EXIF orientation [2-8])"),
    ),
    Rule(
        "metadata",
        "warning",
        "stored with text, GPS or an owner beside its pixels, perhaps of a person",
        _carries("(?:EXIF orientation [2-8](?:, |$))?(.*)$"),
    ),
    Rule(
        "mask-number",
        "error",
        "a mask with a number that means no class (--mask_classes)",
        f"select {_NAME} || ': ' || array_to_string(odd, ', ') as text, [{_IMAGE}] as images "
        "from (select *, list_filter([pair[1] for pair in mask], "
        "lambda it: it != 255 and not list_contains(numbers, it)) as odd "
        "from images, meant where mask is not null and numbers is not null) "
        "where len(odd) > 0 order by number",
    ),
    Rule(
        "mask-missing",
        "warning",
        "no mask, where others have one",
        f"select {_NAME} as text, [{_IMAGE}] as images from images where mask is null "
        "and (select count(mask) > 0 from images) order by number",
    ),
    Rule(
        "mask-empty",
        "warning",
        "a mask of one number, besides 255",
        _odd(
            "'all pixels are ' || array_to_string([pair[1] for pair in mask], ' or ')",
            "len(list_filter(mask, lambda pair: pair[1] != 255)) <= 1",
            "number",
        ),
    ),
    Rule(
        "rejected",
        "warning",
        "not stored, since it cannot be used",
        f"select {_NAME} || ': ' || reason as text, [{_IMAGE}] as images from others "
        "where status = 'rejected' order by split, key",
    ),
    Rule(
        "unmatched",
        "warning",
        "listed and not there, or there and not listed",
        "select status || ': ' || coalesce(split || '/', '') || key as text, [] as images "
        "from others where status in ('missing', 'unlisted') order by status, split, key",
    ),
    Rule(
        "repaired",
        "note",
        "stored in another form, or with a decoder's warning",
        f"select {_NAME} || ': ' || reason as text, [{_IMAGE}] as images from images "
        "where status != 'stored' and reason is not null order by number",
    ),
    Rule(
        "ignored",
        "note",
        "a file that is no image",
        "select coalesce(key || ' in ', '') || coalesce(container, '') || ': ' || reason as text, "
        "[] as images from others where status = 'ignored' order by container, key",
    ),
)

NEEDS_NEAR: Final = frozenset({"near-leak", "near-conflict", "near-copy"})
NEEDS_PICTURES: Final = NEEDS_NEAR | {"blank", "uniform", "dark", "bright"}
