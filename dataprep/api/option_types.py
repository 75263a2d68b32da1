"""What the Python calls take as options, for type checkers and completion.

Made from the table in `dataprep.api.options` by ``python -m tests.regenerate_docs``.
What a command takes with commas may be a list or a mapping. None is as good as nothing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict

StrPath = str | os.PathLike[str]
Names = str | Sequence[str]


class JobOptions(TypedDict, total=False):
    """Of every call that makes shards."""

    workers: int | None
    io_limit: int | str | None
    build_dir: StrPath | None
    runner: str | None
    dask_client_address: str | None
    dask_scheduler_file: StrPath | None
    dask_slurm: str | None
    dask_timeout: float | None
    lustre_stripe: int | str | None
    lustre_pool: str | None


class PrepareOptions(JobOptions, total=False):
    """Of `prepare`, of every data set that comes with it."""

    raw: StrPath | None
    raw_data_dir: StrPath | None
    splits: Names | None
    limit: int | str | None
    exclude: StrPath | None
    links: Literal["follow", "inside"] | None
    index_dir: StrPath | None
    files: str | None
    label_field: str | None
    image_field: str | None
    key_field: str | None
    caption_field: str | None
    attribute_fields: Names | None
    classes: StrPath | None
    label_base: Literal["auto", "0", "1"] | None
    unlabelled: bool | None
    split_name: str | None
    out: StrPath | None
    local_scratch_dir: StrPath | None
    sink: str | None
    sink_option: str | Sequence[str] | Mapping[str, str] | None
    num_shards: int | str | Mapping[str, int] | None
    overwrite: bool | None
    max_bad: int | str | None
    verify_before_seal: bool | None
    stats: Literal["off", "on"] | None
    append: bool | None
    layout: Literal["split", "flat"] | None
    resize: int | str | None
    center_crop: int | None
    quality: int | None
    encoding: Literal["keep", "jpeg", "png", "raw"] | None
    color: Literal["keep", "rgb", "gray"] | None
    check: Literal["header", "bitstream", "pixels"] | None
    filter: Literal["box", "bilinear", "bicubic", "lanczos"] | None
    depth: Literal["8", "keep"] | None
    dicom_window: str | None
    max_image_bytes: int | None
    exif: Literal["auto", "apply", "ignore"] | None
    strip_metadata: bool | None
    shuffle: Literal["stratified", "global", "none"] | None
    seed: int | None
    folds: int | None
    listing: StrPath | None
    path_column: str | None
    label_column: str | None
    split_column: str | None
    label_separator: str | None
    no_label: str | None
    label_columns: str | None
    uncertain: Literal["keep", "positive", "negative", "exclude"] | None
    caption_column: str | None
    attribute_columns: Names | None
    inside: str | None
    class_from: Literal["top", "path"] | None
    split_folders: Literal["auto", "never"] | None
    fractions: str | Mapping[str, float] | None
    stratify: Literal["labels", "none"] | None
    splits_from: StrPath | None
    split_seed: int | str | None
    group_by: str | None
    dicom_attributes: Names | None
    hash_key: StrPath | None
    hash_keys: bool | None
    label_order: Literal["canonical", "alphabetical"] | None
    split: Literal["official", "random-by-patient"] | None
    validation_fraction: float | str | None
    test_fraction: float | str | None
    labels: StrPath | None
    train_val_list: StrPath | None
    test_list: StrPath | None
    bbox_csv: StrPath | None


class CompactOptions(JobOptions, total=False):
    """Of `compact`."""

    check: Literal["size", "hash", "records", "decode"] | None


class ConvertOptions(CompactOptions, total=False):
    """Of `convert`."""

    to: StrPath | None
    sink: str | None
    sink_option: str | Sequence[str] | Mapping[str, str] | None
    num_shards: int | str | Mapping[str, int] | None
    overwrite: bool | None
    verify_before_seal: bool | None
    layout: Literal["split", "flat"] | None
    resize: int | str | None
    center_crop: int | None
    quality: int | None
    encoding: Literal["keep", "jpeg", "png", "raw"] | None
    color: Literal["keep", "rgb", "gray"] | None
    filter: Literal["box", "bilinear", "bicubic", "lanczos"] | None
    strip_metadata: bool | None


class SelectOptions(ConvertOptions, total=False):
    """Of `select`."""

    splits: Names | None
    where: str | None
    sample: float | str | None
    stratify: bool | None
    exclude: StrPath | None
    relabel: StrPath | None
    classes: StrPath | None
    split_by: str | None
    shuffle: Literal["stratified", "global", "none"] | None
    seed: int | None


class StageOptions(TypedDict, total=False):
    """Of `stage`."""

    split: Names | None
    share: Literal["node"] | None
    shared: bool | None
    verify: Literal["none", "copy", "reread"] | None
    bandwidth: int | str | None
    broadcast: Literal["mpi"] | None
    rendezvous: str | None
    rendezvous_seconds: float | None
