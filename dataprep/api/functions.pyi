"""Made of the declarations of options, by ``python -m tests.regenerate_docs``."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Literal

from dataprep.api.progress import Tell
from dataprep.options import StrPath
from dataprep.sealed.set import SealedSet

def imagenet(
    raw: StrPath,
    out: StrPath,
    *,
    splits: str | Sequence[str] | None = None,
    limit: float | str | Fraction | None = None,
    exclude: StrPath | None = None,
    links: Literal['follow', 'inside'] = 'follow',
    index_dir: StrPath | None = None,
    bbox_csv: StrPath | None = None,
    sink: str = 'tfrecord',
    sink_option: str | Sequence[str] | Mapping[str, str] | None = None,
    num_shards: int | str | Mapping[str, int] | None = None,
    overwrite: bool = False,
    verify_before_seal: bool = False,
    layout: Literal['split', 'flat'] = 'split',
    max_bad: float | str | Fraction = '0',
    append: bool = False,
    resize: int | str | None = None,
    center_crop: int | None = None,
    quality: int = 95,
    encoding: Literal['keep', 'jpeg', 'png', 'raw'] = 'keep',
    color: Literal['keep', 'rgb', 'gray'] = 'keep',
    check: Literal['header', 'bitstream', 'pixels'] = 'bitstream',
    filter: Literal['box', 'bilinear', 'bicubic', 'lanczos'] = 'bicubic',
    depth: Literal['8', 'keep'] = '8',
    dicom_window: str = 'file',
    max_image_bytes: int = 268435456,
    exif: Literal['auto', 'apply', 'ignore'] = 'auto',
    strip_metadata: bool = False,
    stats: Literal['off', 'on'] = 'off',
    shuffle: Literal['stratified', 'global', 'none'] | None = None,
    seed: int = 0,
    folds: int | None = None,
    workers: int | None = None,
    io_limit: int | str | None = None,
    build_dir: StrPath | None = None,
    runner: str = 'direct',
    dask_client_address: str | None = None,
    dask_scheduler_file: StrPath | None = None,
    dask_slurm: str | None = None,
    dask_timeout: float = 300,
    lustre_stripe: int | str | None = None,
    lustre_pool: str | None = None,
    progress: Tell | None = None,
    beam_options: Sequence[str] = (),
) -> SealedSet:
    """Turn the raw ILSVRC2012 images into shuffled, verified shards.

    The raw data: the original archives, or a tree; the layout is detected.

    Killed at any moment, the same call resumes. ``dataprep.imagenet("RAW", "OUT", resize=256)`` is
    ``dataprep imagenet --raw_data_dir RAW --local_scratch_dir OUT --resize 256``; so is
    ``dataprep.prepare("imagenet", "RAW", "OUT", resize=256)``, which also knows the data sets of
    plugins. In a script, call it under ``if __name__ == "__main__":``, as all that starts
    processes.

    Args:
        raw: directory of the raw images, or its address in a bucket.
        out: directory for the shards and ``manifest.json``.
        splits: Only these splits, e.g. train,validation. [default: all]
        limit: Only N images of each split, or P percent of them.
        exclude: Images to leave out: a CSV with the columns split and key, such as
            `dataprep lint --write_exclude` writes, or one name per line.
        links: Links in RAW that lead out of it: follow, as people link to what lies
            elsewhere; inside: stop the run, where somebody else has made RAW.
        index_dir: Directory for the index of the raw data, to share it between outputs.
            [default: in OUT]
        bbox_csv: Bounding boxes of training images: name,xmin,ymin,xmax,ymax in fractions.
        sink: Output format; `dataprep sinks` lists them.
        sink_option: Option of the format; `dataprep sinks` lists them. May be repeated.
        num_shards: Shards of each split, e.g. train=1024,validation=128, or one number for
            all. [default: train 1024, others 128; fewer below 100 images a shard or where
            the format asks for fewer]
        overwrite: Delete what an earlier job made in OUT first, and index the raw data
            again.
        verify_before_seal: Read every shard back and compare its hash before manifest.json
            is written; the same command then replaces damaged shards.
        layout: Shards in OUT/train, OUT/validation and so on, or all in OUT itself.
        max_bad: Rejected images to tolerate.
        append: Add the images that the finished data set in OUT does not have yet, as new
            shards.
        resize: 256: the shorter side; 320x256: exactly WIDTHxHEIGHT.
        center_crop: After resizing, crop a centred square.
        quality: JPEG quality for re-encoded images.
        encoding: keep: valid images byte for byte. raw: pixels, for formats that store
            them.
        color: keep: grey images stay grey.
        check: How far to decode images that are stored unchanged.
        filter: Antialiasing filter for --resize.
        depth: Bits per sample. keep: what has 16, or a DICOM more than 8, is stored as PNG
            of 16.
        dicom_window: Of DICOM. file: the window or table it names, and all values without
            one; full: all values; or CENTER,WIDTH.
        max_image_bytes: Reject image files that are larger, unread.
        exif: auto: turn images upright where they are re-encoded. apply: re-encode images
            that are not upright. ignore: leave them as they are.
        strip_metadata: Take away what images have beside pixels, such as names, places,
            comments and thumbnails; colour profiles and the orientation stay.
        stats: Write image statistics into the manifest: sizes, formats and, where pixels
            are decoded anyway, channel means.
        shuffle: Order of the images. [default: stratified for train, none for validation]
        seed: Random seed of the shuffle.
        folds: Number the images of each split 0 to K-1 for cross-validation, as the
            attribute fold. Folds have about as many of every label each, and no group is in
            two.
        workers: Cores of this machine to use; with one of Beam's runners, threads of each
            of its workers. Dask's workers have threads of their own. [default: all cores
            that this process may use]
        io_limit: Bytes a second that all processes on this machine together may read and
            write, e.g. 200MB. [default: no limit]
        build_dir: Directory in which to build LMDB and HDF5 files before they are copied.
            [default: node-local scratch if the output is on a network file system]
        runner: direct: this machine. dask: a Dask cluster. Or one of Beam's runners, e.g.
            FlinkRunner, whose own options follow `--`.
        dask_client_address: Address of a Dask scheduler, e.g. tls://10.0.0.1:8786.
        dask_scheduler_file: File to which a Dask scheduler writes its address, as that of
            dask-mpi does.
        dask_slurm: Start Dask's workers as Slurm jobs, and end them afterwards:
            nodes=4,cores=16,memory=32GB[,partition=,account=,walltime=,...].
        dask_timeout: Give up after this long without a worker.
        lustre_stripe: Lustre layout of the directories that are written. auto: by the size
            of the files, unless the site has a progressive layout. COUNT: this many
            stripes, -1: all targets. off: set none. [default: auto, but a layout that was
            chosen before is kept]
        lustre_pool: Pool of the targets to use, where the site has several, e.g. flash.
        progress: is told a `Progress` again and again; ``print`` will do. By default there is a
            bar in a terminal or a notebook, and nothing elsewhere.
        beam_options: Beam's own, e.g. ``["--flink_master=HOST:PORT"]``.

    Raises:
        UsageError: an option that there is not, or that cannot have this value.
        RejectedError: more images were rejected than ``max_bad`` allows; nothing was sealed.
        DataprepError: any other of its kinds; everything committed so far is kept.
    """

def chestxray14(
    raw: StrPath,
    out: StrPath,
    *,
    splits: str | Sequence[str] | None = None,
    limit: float | str | Fraction | None = None,
    exclude: StrPath | None = None,
    links: Literal['follow', 'inside'] = 'follow',
    index_dir: StrPath | None = None,
    label_order: Literal['canonical', 'alphabetical'] = 'canonical',
    split: Literal['official', 'random-by-patient'] = 'official',
    validation_fraction: float | str | Fraction = '10%',
    test_fraction: float | str | Fraction | None = None,
    split_seed: int = 0,
    labels: StrPath | None = None,
    train_val_list: StrPath | None = None,
    test_list: StrPath | None = None,
    bbox_csv: StrPath | None = None,
    sink: str = 'tfrecord',
    sink_option: str | Sequence[str] | Mapping[str, str] | None = None,
    num_shards: int | str | Mapping[str, int] | None = None,
    overwrite: bool = False,
    verify_before_seal: bool = False,
    layout: Literal['split', 'flat'] = 'split',
    max_bad: float | str | Fraction = '0',
    append: bool = False,
    resize: int | str | None = None,
    center_crop: int | None = None,
    quality: int = 95,
    encoding: Literal['keep', 'jpeg', 'png', 'raw'] = 'keep',
    color: Literal['keep', 'rgb', 'gray'] = 'gray',
    check: Literal['header', 'bitstream', 'pixels'] = 'bitstream',
    filter: Literal['box', 'bilinear', 'bicubic', 'lanczos'] = 'bicubic',
    depth: Literal['8', 'keep'] = '8',
    dicom_window: str = 'file',
    max_image_bytes: int = 268435456,
    exif: Literal['auto', 'apply', 'ignore'] = 'auto',
    strip_metadata: bool = False,
    stats: Literal['off', 'on'] = 'off',
    shuffle: Literal['stratified', 'global', 'none'] | None = None,
    seed: int = 0,
    folds: int | None = None,
    workers: int | None = None,
    io_limit: int | str | None = None,
    build_dir: StrPath | None = None,
    runner: str = 'direct',
    dask_client_address: str | None = None,
    dask_scheduler_file: StrPath | None = None,
    dask_slurm: str | None = None,
    dask_timeout: float = 300,
    lustre_stripe: int | str | None = None,
    lustre_pool: str | None = None,
    progress: Tell | None = None,
    beam_options: Sequence[str] = (),
) -> SealedSet:
    """Prepare ChestX-ray14, the NIH's 112,120 chest radiographs of 30,805 patients.

    The raw directory holds Data_Entry_2017_v2020.csv (or Data_Entry_2017.csv), train_val_list.txt, test_list.txt and perhaps BBox_List_2017.csv, and the images: images_001.tar.gz to images_012.tar.gz (also .tar or .zip), the same unpacked, or images/*.png. No patient is ever in two splits.

    Killed at any moment, the same call resumes. ``dataprep.imagenet("RAW", "OUT", resize=256)`` is
    ``dataprep imagenet --raw_data_dir RAW --local_scratch_dir OUT --resize 256``; so is
    ``dataprep.prepare("imagenet", "RAW", "OUT", resize=256)``, which also knows the data sets of
    plugins. In a script, call it under ``if __name__ == "__main__":``, as all that starts
    processes.

    Args:
        raw: directory of the raw images, or its address in a bucket.
        out: directory for the shards and ``manifest.json``.
        splits: Only these splits, e.g. train,validation. [default: all]
        limit: Only N images of each split, or P percent of them.
        exclude: Images to leave out: a CSV with the columns split and key, such as
            `dataprep lint --write_exclude` writes, or one name per line.
        links: Links in RAW that lead out of it: follow, as people link to what lies
            elsewhere; inside: stop the run, where somebody else has made RAW.
        index_dir: Directory for the index of the raw data, to share it between outputs.
            [default: in OUT]
        label_order: Order of the 14 findings: CheXNet's, or by name.
        split: Test images by the official lists, or all splits at random. Validation is at
            random in both. Always whole patients.
        validation_fraction: Share of the patients of the official training and validation
            list, or of all patients with --split random-by-patient; 0 for no validation
            split.
        test_fraction: Share of all patients, only with --split random-by-patient, and then
            20% if not given; 0 for no test split.
        split_seed: Random seed of the splits cut at random.
        labels: Label CSV, if not in the raw directory.
        train_val_list: Official list of training and validation images, if not in the raw
            directory.
        test_list: Official list of test images, if not in the raw directory.
        bbox_csv: Box list, if not in the raw directory.
        sink: Output format; `dataprep sinks` lists them.
        sink_option: Option of the format; `dataprep sinks` lists them. May be repeated.
        num_shards: Shards of each split, e.g. train=1024,validation=128, or one number for
            all. [default: train 1024, others 128; fewer below 100 images a shard or where
            the format asks for fewer]
        overwrite: Delete what an earlier job made in OUT first, and index the raw data
            again.
        verify_before_seal: Read every shard back and compare its hash before manifest.json
            is written; the same command then replaces damaged shards.
        layout: Shards in OUT/train, OUT/validation and so on, or all in OUT itself.
        max_bad: Rejected images to tolerate.
        append: Add the images that the finished data set in OUT does not have yet, as new
            shards.
        resize: 256: the shorter side; 320x256: exactly WIDTHxHEIGHT.
        center_crop: After resizing, crop a centred square.
        quality: JPEG quality for re-encoded images.
        encoding: keep: valid images byte for byte. raw: pixels, for formats that store
            them.
        color: keep: grey images stay grey.
        check: How far to decode images that are stored unchanged.
        filter: Antialiasing filter for --resize.
        depth: Bits per sample. keep: what has 16, or a DICOM more than 8, is stored as PNG
            of 16.
        dicom_window: Of DICOM. file: the window or table it names, and all values without
            one; full: all values; or CENTER,WIDTH.
        max_image_bytes: Reject image files that are larger, unread.
        exif: auto: turn images upright where they are re-encoded. apply: re-encode images
            that are not upright. ignore: leave them as they are.
        strip_metadata: Take away what images have beside pixels, such as names, places,
            comments and thumbnails; colour profiles and the orientation stay.
        stats: Write image statistics into the manifest: sizes, formats and, where pixels
            are decoded anyway, channel means.
        shuffle: Order of the images. [default: stratified for train, none for validation]
        seed: Random seed of the shuffle.
        folds: Number the images of each split 0 to K-1 for cross-validation, as the
            attribute fold. Folds have about as many of every label each, and no group is in
            two.
        workers: Cores of this machine to use; with one of Beam's runners, threads of each
            of its workers. Dask's workers have threads of their own. [default: all cores
            that this process may use]
        io_limit: Bytes a second that all processes on this machine together may read and
            write, e.g. 200MB. [default: no limit]
        build_dir: Directory in which to build LMDB and HDF5 files before they are copied.
            [default: node-local scratch if the output is on a network file system]
        runner: direct: this machine. dask: a Dask cluster. Or one of Beam's runners, e.g.
            FlinkRunner, whose own options follow `--`.
        dask_client_address: Address of a Dask scheduler, e.g. tls://10.0.0.1:8786.
        dask_scheduler_file: File to which a Dask scheduler writes its address, as that of
            dask-mpi does.
        dask_slurm: Start Dask's workers as Slurm jobs, and end them afterwards:
            nodes=4,cores=16,memory=32GB[,partition=,account=,walltime=,...].
        dask_timeout: Give up after this long without a worker.
        lustre_stripe: Lustre layout of the directories that are written. auto: by the size
            of the files, unless the site has a progressive layout. COUNT: this many
            stripes, -1: all targets. off: set none. [default: auto, but a layout that was
            chosen before is kept]
        lustre_pool: Pool of the targets to use, where the site has several, e.g. flash.
        progress: is told a `Progress` again and again; ``print`` will do. By default there is a
            bar in a terminal or a notebook, and nothing elsewhere.
        beam_options: Beam's own, e.g. ``["--flink_master=HOST:PORT"]``.

    Raises:
        UsageError: an option that there is not, or that cannot have this value.
        RejectedError: more images were rejected than ``max_bad`` allows; nothing was sealed.
        DataprepError: any other of its kinds; everything committed so far is kept.
    """

def folder(
    raw: StrPath,
    out: StrPath,
    *,
    splits: str | Sequence[str] | None = None,
    limit: float | str | Fraction | None = None,
    exclude: StrPath | None = None,
    links: Literal['follow', 'inside'] = 'follow',
    index_dir: StrPath | None = None,
    listing: StrPath | None = None,
    unlabelled: bool = False,
    path_column: str = 'path',
    label_column: str = 'label',
    split_column: str | None = None,
    label_separator: str = '',
    no_label: str = '',
    label_columns: str | Sequence[str] | None = None,
    uncertain: Literal['keep', 'positive', 'negative', 'exclude'] | None = None,
    caption_column: str = '',
    attribute_columns: str | Sequence[str] | None = None,
    mask_dir: str = '',
    mask_suffix: str = '',
    mask_column: str | Sequence[str] | None = None,
    mask_runs: Literal['rows', 'columns'] | None = None,
    mask_outlines: bool = False,
    mask_values: str | Mapping[int, int] | None = None,
    mask_classes: StrPath | None = None,
    inside: str = '',
    class_from: Literal['top', 'path'] = 'top',
    classes: StrPath | None = None,
    split_folders: Literal['auto', 'never'] = 'auto',
    split_name: str = 'train',
    fractions: str | Mapping[str, float | str | Fraction] | None = None,
    stratify: bool | None = None,
    splits_from: StrPath | None = None,
    split_seed: int = 0,
    group_by: str = 'path',
    dicom_attributes: str | Sequence[str] | None = None,
    frames: Literal['first', 'middle', 'all'] | None = None,
    hash_key: StrPath | None = None,
    hash_keys: bool = False,
    sink: str = 'tfrecord',
    sink_option: str | Sequence[str] | Mapping[str, str] | None = None,
    num_shards: int | str | Mapping[str, int] | None = None,
    overwrite: bool = False,
    verify_before_seal: bool = False,
    layout: Literal['split', 'flat'] = 'split',
    max_bad: float | str | Fraction = '0',
    append: bool = False,
    resize: int | str | None = None,
    center_crop: int | None = None,
    quality: int = 95,
    encoding: Literal['keep', 'jpeg', 'png', 'raw'] = 'keep',
    color: Literal['keep', 'rgb', 'gray'] = 'keep',
    check: Literal['header', 'bitstream', 'pixels'] = 'bitstream',
    filter: Literal['box', 'bilinear', 'bicubic', 'lanczos'] = 'bicubic',
    depth: Literal['8', 'keep'] = '8',
    dicom_window: str = 'file',
    max_image_bytes: int = 268435456,
    exif: Literal['auto', 'apply', 'ignore'] = 'auto',
    strip_metadata: bool = False,
    stats: Literal['off', 'on'] = 'off',
    shuffle: Literal['stratified', 'global', 'none'] | None = None,
    seed: int = 0,
    folds: int | None = None,
    workers: int | None = None,
    io_limit: int | str | None = None,
    build_dir: StrPath | None = None,
    runner: str = 'direct',
    dask_client_address: str | None = None,
    dask_scheduler_file: StrPath | None = None,
    dask_slurm: str | None = None,
    dask_timeout: float = 300,
    lustre_stripe: int | str | None = None,
    lustre_pool: str | None = None,
    progress: Tell | None = None,
    beam_options: Sequence[str] = (),
) -> SealedSet:
    """Any image set: class folders, archives of them, or a listing.

    Without --listing, a folder's name is the class of what is in it: CLASS/x.jpg, also in .tar,
    .tar.gz, .tar.zst, .tar.xz or .zip archives; an archive whose images are in no folder is a class
    itself. Top folders or archives called train, val or test are splits. With --listing FILE, the
    file names the images, which are files below the raw directory or in archives there, and their
    labels.

    Killed at any moment, the same call resumes. ``dataprep.imagenet("RAW", "OUT", resize=256)`` is
    ``dataprep imagenet --raw_data_dir RAW --local_scratch_dir OUT --resize 256``; so is
    ``dataprep.prepare("imagenet", "RAW", "OUT", resize=256)``, which also knows the data sets of
    plugins. In a script, call it under ``if __name__ == "__main__":``, as all that starts
    processes.

    Args:
        raw: directory of the raw images, or its address in a bucket.
        out: directory for the shards and ``manifest.json``.
        splits: Only these splits, e.g. train,validation. [default: all]
        limit: Only N images of each split, or P percent of them.
        exclude: Images to leave out: a CSV with the columns split and key, such as
            `dataprep lint --write_exclude` writes, or one name per line.
        links: Links in RAW that lead out of it: follow, as people link to what lies
            elsewhere; inside: stop the run, where somebody else has made RAW.
        index_dir: Directory for the index of the raw data, to share it between outputs.
            [default: in OUT]
        listing: A file that lists the images: path,label[,split] as CSV, TSV, JSON lines or
            Parquet, or lines `path label` (.txt); one a split, with commas, if their names
            tell it; or annotations, several with commas: COCO's .json, YOLO's data.yaml, or
            the folder of Pascal VOC's .xml or LabelMe's .json; or the first file of a
            published layout (docs/folder.md). A path, or a name in the raw directory.
            Without it, or with none, folders tell the classes; or a metadata.csv, .jsonl or
            .parquet beside the images, as Hugging Face has it.
        unlabelled: Take all images that there are, in whatever folders, without classes.
        path_column: The listing's column of paths.
        label_column: The listing's column of labels.
        split_column: The listing's column of splits; '' for none. [default: split, if there
            is one]
        label_separator: What separates the labels in a cell of the listing, such as '|';
            then an image may have any number of labels.
        no_label: A label of the listing that means none, such as 'No Finding'; then an
            image may have no labels.
        label_columns: The listing's columns that are classes, in this order: 1 where an
            image has it, 0 or nothing where not, -1 where that is uncertain. An image may
            have any number.
        uncertain: What a -1 in --label_columns becomes: keep: -1 in `records.labels`; or
            positive, negative; exclude: the image is left out. [default: keep]
        caption_column: The listing's column of captions: a text, or, in JSON lines and
            Parquet, a list of them.
        attribute_columns: The listing's columns that are kept as attributes of each image,
            such as age,sex; or all that are not used otherwise.
        mask_dir: The folder of the images' masks, which has the tree that the images have:
            a path in the raw directory or in its archives, or the name of such folders
            anywhere. A mask has a number for each pixel: of a grey or indexed picture, 255
            for none.
        mask_suffix: What the name of a mask ends with, instead of the image's suffix, such
            as _mask.png; or IMAGE=MASK, such as _leftImg8bit=_gtFine_labelIds. Without
            --mask_dir, masks are beside their images.
        mask_column: The listing's column of masks: paths, in --mask_dir or else the raw
            directory; or columns with runs of pixels, `start length start length`, as
            numbers 1, 2 and so on.
        mask_runs: How --mask_column's runs count the pixels, from 1: along rows, as
            CheXmask's do, or down columns, as most of Kaggle's.
        mask_outlines: Make masks of what COCO's annotations outline, each category its
            number: 1, 2 and so on in the order of the ids; 255 where different ones
            overlap. Needs pycocotools.
        mask_values: Numbers of masks that become others, such as 255=1 where 255 is a
            class.
        mask_classes: A list of what the numbers of masks mean: a name a line, from 0; or
            `number<TAB>name`.
        inside: Take only what is below this path, in the raw directory or in its archives,
            as if all started there.
        class_from: The class of an image in folders: the top folder, as torchvision and
            Keras have it, or the whole folder path, such as a/airfield.
        classes: A list of the classes that fixes their order: one a line, optionally with a
            TAB and its name after it. Needed where part of a data set is to have the
            whole's labels.
        split_folders: Whether top folders named train, training, val, valid, validation,
            validate, test, testing are splits; never: they are classes.
        split_name: The split of all images, if nothing else tells one.
        fractions: Cut the images, those of each class, into splits of these shares, which
            add up to 1: train=0.8,validation=0.1,test=0.1.
        stratify: Whether --fractions are shares of each class (of several labels, the
            rarest counts); else a hash alone sends each image somewhere. [default: they
            are]
        splits_from: Leave what is assigned where it is, and let --fractions assign only
            what is new: a finished data set, perhaps OUT itself, or a .csv or .parquet with
            key,split[,group].
        split_seed: Random seed of --fractions.
        group_by: What is never in two splits: an image (path), a folder's images (folder),
            or the images with one value in a column of the listing, such as patient, or of
            --dicom_attributes (patient, study).
        dicom_attributes: What of the headers of DICOM images is kept as attributes: view,
            laterality, body_part, age (in decades), age_years, sex, manufacturer,
            row_spacing, column_spacing (in mm), study, patient; all: these without
            age_years. The last two are hashed with --hash_key.
        frames: Of DICOM of several frames: the first, the middle one, or all, each an image
            with the key NAME#1, NAME#2, …, and never in two splits. [default: they are
            refused]
        hash_key: A file with the secret key of hashes; openssl rand -hex 32 > FILE makes
            one.
        hash_keys: Make keys hashes of the images' paths, with --hash_key, where these may
            name people.
        sink: Output format; `dataprep sinks` lists them.
        sink_option: Option of the format; `dataprep sinks` lists them. May be repeated.
        num_shards: Shards of each split, e.g. train=1024,validation=128, or one number for
            all. [default: train 1024, others 128; fewer below 100 images a shard or where
            the format asks for fewer]
        overwrite: Delete what an earlier job made in OUT first, and index the raw data
            again.
        verify_before_seal: Read every shard back and compare its hash before manifest.json
            is written; the same command then replaces damaged shards.
        layout: Shards in OUT/train, OUT/validation and so on, or all in OUT itself.
        max_bad: Rejected images to tolerate.
        append: Add the images that the finished data set in OUT does not have yet, as new
            shards.
        resize: 256: the shorter side; 320x256: exactly WIDTHxHEIGHT.
        center_crop: After resizing, crop a centred square.
        quality: JPEG quality for re-encoded images.
        encoding: keep: valid images byte for byte. raw: pixels, for formats that store
            them.
        color: keep: grey images stay grey.
        check: How far to decode images that are stored unchanged.
        filter: Antialiasing filter for --resize.
        depth: Bits per sample. keep: what has 16, or a DICOM more than 8, is stored as PNG
            of 16.
        dicom_window: Of DICOM. file: the window or table it names, and all values without
            one; full: all values; or CENTER,WIDTH.
        max_image_bytes: Reject image files that are larger, unread.
        exif: auto: turn images upright where they are re-encoded. apply: re-encode images
            that are not upright. ignore: leave them as they are.
        strip_metadata: Take away what images have beside pixels, such as names, places,
            comments and thumbnails; colour profiles and the orientation stay.
        stats: Write image statistics into the manifest: sizes, formats and, where pixels
            are decoded anyway, channel means.
        shuffle: Order of the images. [default: stratified for train, none for validation]
        seed: Random seed of the shuffle.
        folds: Number the images of each split 0 to K-1 for cross-validation, as the
            attribute fold. Folds have about as many of every label each, and no group is in
            two.
        workers: Cores of this machine to use; with one of Beam's runners, threads of each
            of its workers. Dask's workers have threads of their own. [default: all cores
            that this process may use]
        io_limit: Bytes a second that all processes on this machine together may read and
            write, e.g. 200MB. [default: no limit]
        build_dir: Directory in which to build LMDB and HDF5 files before they are copied.
            [default: node-local scratch if the output is on a network file system]
        runner: direct: this machine. dask: a Dask cluster. Or one of Beam's runners, e.g.
            FlinkRunner, whose own options follow `--`.
        dask_client_address: Address of a Dask scheduler, e.g. tls://10.0.0.1:8786.
        dask_scheduler_file: File to which a Dask scheduler writes its address, as that of
            dask-mpi does.
        dask_slurm: Start Dask's workers as Slurm jobs, and end them afterwards:
            nodes=4,cores=16,memory=32GB[,partition=,account=,walltime=,...].
        dask_timeout: Give up after this long without a worker.
        lustre_stripe: Lustre layout of the directories that are written. auto: by the size
            of the files, unless the site has a progressive layout. COUNT: this many
            stripes, -1: all targets. off: set none. [default: auto, but a layout that was
            chosen before is kept]
        lustre_pool: Pool of the targets to use, where the site has several, e.g. flash.
        progress: is told a `Progress` again and again; ``print`` will do. By default there is a
            bar in a terminal or a notebook, and nothing elsewhere.
        beam_options: Beam's own, e.g. ``["--flink_master=HOST:PORT"]``.

    Raises:
        UsageError: an option that there is not, or that cannot have this value.
        RejectedError: more images were rejected than ``max_bad`` allows; nothing was sealed.
        DataprepError: any other of its kinds; everything committed so far is kept.
    """

def shards(
    raw: StrPath,
    out: StrPath,
    *,
    splits: str | Sequence[str] | None = None,
    limit: float | str | Fraction | None = None,
    exclude: StrPath | None = None,
    links: Literal['follow', 'inside'] = 'follow',
    index_dir: StrPath | None = None,
    files: str = '',
    label_field: str = '',
    image_field: str = '',
    key_field: str = '',
    caption_field: str = '',
    attribute_fields: str | Sequence[str] | None = None,
    classes: StrPath | None = None,
    label_base: Literal['auto', '0', '1'] = 'auto',
    unlabelled: bool = False,
    split_name: str = 'train',
    sink: str = 'tfrecord',
    sink_option: str | Sequence[str] | Mapping[str, str] | None = None,
    num_shards: int | str | Mapping[str, int] | None = None,
    overwrite: bool = False,
    verify_before_seal: bool = False,
    layout: Literal['split', 'flat'] = 'split',
    max_bad: float | str | Fraction = '0',
    append: bool = False,
    resize: int | str | None = None,
    center_crop: int | None = None,
    quality: int = 95,
    encoding: Literal['keep', 'jpeg', 'png', 'raw'] = 'keep',
    color: Literal['keep', 'rgb', 'gray'] = 'keep',
    check: Literal['header', 'bitstream', 'pixels'] = 'bitstream',
    filter: Literal['box', 'bilinear', 'bicubic', 'lanczos'] = 'bicubic',
    depth: Literal['8', 'keep'] = '8',
    dicom_window: str = 'file',
    max_image_bytes: int = 268435456,
    exif: Literal['auto', 'apply', 'ignore'] = 'auto',
    strip_metadata: bool = False,
    stats: Literal['off', 'on'] = 'off',
    shuffle: Literal['stratified', 'global', 'none'] | None = None,
    seed: int = 0,
    folds: int | None = None,
    workers: int | None = None,
    io_limit: int | str | None = None,
    build_dir: StrPath | None = None,
    runner: str = 'direct',
    dask_client_address: str | None = None,
    dask_scheduler_file: StrPath | None = None,
    dask_slurm: str | None = None,
    dask_timeout: float = 300,
    lustre_stripe: int | str | None = None,
    lustre_pool: str | None = None,
    progress: Tell | None = None,
    beam_options: Sequence[str] = (),
) -> SealedSet:
    """Images packed by others: WebDataset, Parquet, TFRecord, RecordIO, MDS.

    What the files are is told by their content, and their splits by their names or folders:
    train-00000-of-00016.parquet, imagenet-val-000000.tar, val/…. They are read where they lie;
    only what is compressed is copied once, below OUT, until the data set is sealed.

    Killed at any moment, the same call resumes. ``dataprep.imagenet("RAW", "OUT", resize=256)`` is
    ``dataprep imagenet --raw_data_dir RAW --local_scratch_dir OUT --resize 256``; so is
    ``dataprep.prepare("imagenet", "RAW", "OUT", resize=256)``, which also knows the data sets of
    plugins. In a script, call it under ``if __name__ == "__main__":``, as all that starts
    processes.

    Args:
        raw: directory of the raw images, or its address in a bucket.
        out: directory for the shards and ``manifest.json``.
        splits: Only these splits, e.g. train,validation. [default: all]
        limit: Only N images of each split, or P percent of them.
        exclude: Images to leave out: a CSV with the columns split and key, such as
            `dataprep lint --write_exclude` writes, or one name per line.
        links: Links in RAW that lead out of it: follow, as people link to what lies
            elsewhere; inside: stop the run, where somebody else has made RAW.
        index_dir: Directory for the index of the raw data, to share it between outputs.
            [default: in OUT]
        files: Only files whose names or paths match, such as 'train-*.tar'.
        label_field: The field that is the label: cls, json.label, label, image/class/label,
            … [default: the only one that may be]
        image_field: The field that is the image, where there are several: jpg, image, …
        key_field: The field that names the image, or number: the file's name and the
            sample's number. [default: one that is called so, or the file name that the
            sample has]
        caption_field: The field of texts that describe the image, or of lists of them: txt,
            json.caption, …
        attribute_fields: Fields that are kept as attributes of each image, such as
            age,json.view; or all.
        classes: A list of the classes in the order of their numbers: one a line, optionally
            with a TAB and its name after it.
        label_base: The number of the first class. auto: 0 if it occurs; 1 if not, and all
            others do.
        unlabelled: Take all images that there are, without classes.
        split_name: The split of all images, if no name of a file tells one.
        sink: Output format; `dataprep sinks` lists them.
        sink_option: Option of the format; `dataprep sinks` lists them. May be repeated.
        num_shards: Shards of each split, e.g. train=1024,validation=128, or one number for
            all. [default: train 1024, others 128; fewer below 100 images a shard or where
            the format asks for fewer]
        overwrite: Delete what an earlier job made in OUT first, and index the raw data
            again.
        verify_before_seal: Read every shard back and compare its hash before manifest.json
            is written; the same command then replaces damaged shards.
        layout: Shards in OUT/train, OUT/validation and so on, or all in OUT itself.
        max_bad: Rejected images to tolerate.
        append: Add the images that the finished data set in OUT does not have yet, as new
            shards.
        resize: 256: the shorter side; 320x256: exactly WIDTHxHEIGHT.
        center_crop: After resizing, crop a centred square.
        quality: JPEG quality for re-encoded images.
        encoding: keep: valid images byte for byte. raw: pixels, for formats that store
            them.
        color: keep: grey images stay grey.
        check: How far to decode images that are stored unchanged.
        filter: Antialiasing filter for --resize.
        depth: Bits per sample. keep: what has 16, or a DICOM more than 8, is stored as PNG
            of 16.
        dicom_window: Of DICOM. file: the window or table it names, and all values without
            one; full: all values; or CENTER,WIDTH.
        max_image_bytes: Reject image files that are larger, unread.
        exif: auto: turn images upright where they are re-encoded. apply: re-encode images
            that are not upright. ignore: leave them as they are.
        strip_metadata: Take away what images have beside pixels, such as names, places,
            comments and thumbnails; colour profiles and the orientation stay.
        stats: Write image statistics into the manifest: sizes, formats and, where pixels
            are decoded anyway, channel means.
        shuffle: Order of the images. [default: stratified for train, none for validation]
        seed: Random seed of the shuffle.
        folds: Number the images of each split 0 to K-1 for cross-validation, as the
            attribute fold. Folds have about as many of every label each, and no group is in
            two.
        workers: Cores of this machine to use; with one of Beam's runners, threads of each
            of its workers. Dask's workers have threads of their own. [default: all cores
            that this process may use]
        io_limit: Bytes a second that all processes on this machine together may read and
            write, e.g. 200MB. [default: no limit]
        build_dir: Directory in which to build LMDB and HDF5 files before they are copied.
            [default: node-local scratch if the output is on a network file system]
        runner: direct: this machine. dask: a Dask cluster. Or one of Beam's runners, e.g.
            FlinkRunner, whose own options follow `--`.
        dask_client_address: Address of a Dask scheduler, e.g. tls://10.0.0.1:8786.
        dask_scheduler_file: File to which a Dask scheduler writes its address, as that of
            dask-mpi does.
        dask_slurm: Start Dask's workers as Slurm jobs, and end them afterwards:
            nodes=4,cores=16,memory=32GB[,partition=,account=,walltime=,...].
        dask_timeout: Give up after this long without a worker.
        lustre_stripe: Lustre layout of the directories that are written. auto: by the size
            of the files, unless the site has a progressive layout. COUNT: this many
            stripes, -1: all targets. off: set none. [default: auto, but a layout that was
            chosen before is kept]
        lustre_pool: Pool of the targets to use, where the site has several, e.g. flash.
        progress: is told a `Progress` again and again; ``print`` will do. By default there is a
            bar in a terminal or a notebook, and nothing elsewhere.
        beam_options: Beam's own, e.g. ``["--flink_master=HOST:PORT"]``.

    Raises:
        UsageError: an option that there is not, or that cannot have this value.
        RejectedError: more images were rejected than ``max_bad`` allows; nothing was sealed.
        DataprepError: any other of its kinds; everything committed so far is kept.
    """

def convert(
    source: StrPath,
    *,
    verify: Literal['size', 'hash', 'records', 'decode', 'reader'] = 'hash',
    to: StrPath,
    sink: str,
    num_shards: int | str | Mapping[str, int] | None = None,
    overwrite: bool = False,
    layout: Literal['split', 'flat'] = 'split',
    sink_option: str | Sequence[str] | Mapping[str, str] | None = None,
    verify_before_seal: bool = False,
    resize: int | str | None = None,
    center_crop: int | None = None,
    quality: int | None = None,
    encoding: Literal['keep', 'jpeg', 'png', 'raw'] | None = None,
    color: Literal['keep', 'rgb', 'gray'] | None = None,
    filter: Literal['box', 'bilinear', 'bicubic', 'lanczos'] | None = None,
    strip_metadata: bool = False,
    workers: int | None = None,
    io_limit: int | str | None = None,
    build_dir: StrPath | None = None,
    runner: str = 'direct',
    dask_client_address: str | None = None,
    dask_scheduler_file: StrPath | None = None,
    dask_slurm: str | None = None,
    dask_timeout: float = 300,
    lustre_stripe: int | str | None = None,
    lustre_pool: str | None = None,
    progress: Tell | None = None,
    beam_options: Sequence[str] = (),
) -> SealedSet:
    """Convert a finished data set to another format, without its raw data; or finish doing so.

    ``dataprep.convert("OUT", to="OUT2", sink="lmdb")``. Order and labels stay, and the bytes of
    the images unless ``resize``, ``quality`` or the like is given.

    Args:
        source: the data set.
        verify: How far to verify the files of OUT first; see `dataprep verify`.
        to: Directory for the new shards and manifest.json.
        sink: Output format; `dataprep sinks` lists them.
        num_shards: Shards of each split, e.g. train=1024,validation=128, or one number for
            all. [default: as many as OUT has, if it has several and the format takes as
            many; else as `dataprep imagenet` chooses]
        overwrite: Delete what an earlier job made in OUT2 first.
        layout: Shards in OUT2/train, OUT2/validation and so on, or all in OUT2 itself.
        sink_option: Option of the format; `dataprep sinks` lists them. May be repeated.
        verify_before_seal: Read every shard back and compare its hash before manifest.json
            is written; the same command then replaces damaged shards.
        resize: 256: the shorter side; 320x256: exactly WIDTHxHEIGHT.
        center_crop: After resizing, crop a centred square.
        quality: JPEG quality for re-encoded images. Given alone, all images become JPEGs.
            [default: 95]
        encoding: Encoding to store. [default: JPEG and PNG stay; pixel arrays become PNG]
        color: Colours to store. [default: as in OUT]
        filter: Antialiasing filter for --resize.
        strip_metadata: Take away what images have beside pixels, such as names, places,
            comments and thumbnails; colour profiles and the orientation stay.
        workers: Cores of this machine to use; with one of Beam's runners, threads of each
            of its workers. Dask's workers have threads of their own. [default: all cores
            that this process may use]
        io_limit: Bytes a second that all processes on this machine together may read and
            write, e.g. 200MB. [default: no limit]
        build_dir: Directory in which to build LMDB and HDF5 files before they are copied.
            [default: node-local scratch if the output is on a network file system]
        runner: direct: this machine. dask: a Dask cluster. Or one of Beam's runners, e.g.
            FlinkRunner, whose own options follow `--`.
        dask_client_address: Address of a Dask scheduler, e.g. tls://10.0.0.1:8786.
        dask_scheduler_file: File to which a Dask scheduler writes its address, as that of
            dask-mpi does.
        dask_slurm: Start Dask's workers as Slurm jobs, and end them afterwards:
            nodes=4,cores=16,memory=32GB[,partition=,account=,walltime=,...].
        dask_timeout: Give up after this long without a worker.
        lustre_stripe: Lustre layout of the directories that are written. auto: by the size
            of the files, unless the site has a progressive layout. COUNT: this many
            stripes, -1: all targets. off: set none. [default: auto, but a layout that was
            chosen before is kept]
        lustre_pool: Pool of the targets to use, where the site has several, e.g. flash.
        progress: see `dataprep.prepare`.
        beam_options: likewise.

    Raises:
        UsageError: an option that there is not, or a format that cannot hold the data set.
        DatasetError: the source is damaged.
        DataprepError: any other of its kinds; everything committed so far is kept.
    """

def select(
    *sources: StrPath | Mapping[str, StrPath],
    splits: str | Sequence[str] | None = None,
    where: str | None = None,
    sample: float | str | Fraction | None = None,
    stratify: bool = False,
    exclude: StrPath | None = None,
    relabel: StrPath | None = None,
    decisions: StrPath | Sequence[StrPath] | None = None,
    split_by: str | None = None,
    verify: Literal['size', 'hash', 'records', 'decode', 'reader'] = 'hash',
    to: StrPath,
    sink: str = '',
    num_shards: int | str | Mapping[str, int] | None = None,
    overwrite: bool = False,
    layout: Literal['split', 'flat'] = 'split',
    classes: StrPath | None = None,
    sink_option: str | Sequence[str] | Mapping[str, str] | None = None,
    verify_before_seal: bool = False,
    resize: int | str | None = None,
    center_crop: int | None = None,
    quality: int | None = None,
    encoding: Literal['keep', 'jpeg', 'png', 'raw'] | None = None,
    color: Literal['keep', 'rgb', 'gray'] | None = None,
    filter: Literal['box', 'bilinear', 'bicubic', 'lanczos'] | None = None,
    strip_metadata: bool = False,
    shuffle: Literal['stratified', 'global', 'none'] | None = None,
    seed: int | None = None,
    workers: int | None = None,
    io_limit: int | str | None = None,
    build_dir: StrPath | None = None,
    runner: str = 'direct',
    dask_client_address: str | None = None,
    dask_scheduler_file: StrPath | None = None,
    dask_slurm: str | None = None,
    dask_timeout: float = 300,
    lustre_stripe: int | str | None = None,
    lustre_pool: str | None = None,
    progress: Tell | None = None,
    beam_options: Sequence[str] = (),
) -> SealedSet:
    """Make a data set of chosen images of finished ones, without their raw data; or finish that.

    ``dataprep.select("OUT", to="OUT2", where="view = 'PA'", relabel="corrected.csv")``. Images that
    are kept byte for byte come out as if they had been prepared so from the raw data.

    Args:
        sources: data sets, of which one is made; or one mapping of names to them, which are put
            before their keys.
        splits: Only these splits, e.g. train,validation. [default: all]
        where: Take the images for which this is true, in SQL over records.parquet: "view =
            'PA'".
        sample: Take this share of each split, e.g. 0.1 or 10%; that of 0.1 is in that of
            0.2.
        stratify: Take that share of each set of labels of a split.
        exclude: Images to leave out: a CSV with the columns split and key, or one name per
            line.
        relabel: Labels to give images: a CSV with the columns split, key and label
            (several: a|b).
        decisions: Files of decisions: what to leave out, other labels and splits, classes
            to rename or merge. People must agree. A class that they empty is dropped,
            unless --classes has it.
        split_by: The column of records.parquet that tells the split. [default: images stay
            in theirs]
        verify: How far to verify the files of OUT first; see `dataprep verify`.
        to: Directory for the new shards and manifest.json.
        sink: Output format. [default: that of SRC]
        num_shards: Shards of each split, e.g. train=1024,validation=128, or one number for
            all. [default: as `dataprep imagenet` chooses]
        overwrite: Delete what an earlier job made in OUT2 first.
        layout: Shards in OUT2/train, OUT2/validation and so on, or all in OUT2 itself.
        classes: A list of the classes, one a line. [default: those of the data sets]
        sink_option: Option of the format; `dataprep sinks` lists them. May be repeated.
        verify_before_seal: Read every shard back and compare its hash before manifest.json
            is written; the same command then replaces damaged shards.
        resize: 256: the shorter side; 320x256: exactly WIDTHxHEIGHT.
        center_crop: After resizing, crop a centred square.
        quality: JPEG quality for re-encoded images. Given alone, all images become JPEGs.
            [default: 95]
        encoding: Encoding to store. [default: JPEG and PNG stay; pixel arrays become PNG]
        color: Colours to store. [default: as in OUT]
        filter: Antialiasing filter for --resize.
        strip_metadata: Take away what images have beside pixels, such as names, places,
            comments and thumbnails; colour profiles and the orientation stay.
        shuffle: Order of the images. [default: as it was]
        seed: Random seed of the shuffle. [default: as it was]
        workers: Cores of this machine to use; with one of Beam's runners, threads of each
            of its workers. Dask's workers have threads of their own. [default: all cores
            that this process may use]
        io_limit: Bytes a second that all processes on this machine together may read and
            write, e.g. 200MB. [default: no limit]
        build_dir: Directory in which to build LMDB and HDF5 files before they are copied.
            [default: node-local scratch if the output is on a network file system]
        runner: direct: this machine. dask: a Dask cluster. Or one of Beam's runners, e.g.
            FlinkRunner, whose own options follow `--`.
        dask_client_address: Address of a Dask scheduler, e.g. tls://10.0.0.1:8786.
        dask_scheduler_file: File to which a Dask scheduler writes its address, as that of
            dask-mpi does.
        dask_slurm: Start Dask's workers as Slurm jobs, and end them afterwards:
            nodes=4,cores=16,memory=32GB[,partition=,account=,walltime=,...].
        dask_timeout: Give up after this long without a worker.
        lustre_stripe: Lustre layout of the directories that are written. auto: by the size
            of the files, unless the site has a progressive layout. COUNT: this many
            stripes, -1: all targets. off: set none. [default: auto, but a layout that was
            chosen before is kept]
        lustre_pool: Pool of the targets to use, where the site has several, e.g. flash.
        progress: see `dataprep.prepare`.
        beam_options: likewise.

    Raises:
        UsageError: an option that there is not, or what is to be taken cannot be told.
        DatasetError: a source is damaged, nothing would be taken, or two images of one name.
        DataprepError: any other of its kinds; everything committed so far is kept.
    """

def compact(
    out: StrPath,
    *,
    verify: Literal['size', 'hash', 'records', 'decode', 'reader'] = 'hash',
    workers: int | None = None,
    io_limit: int | str | None = None,
    build_dir: StrPath | None = None,
    runner: str = 'direct',
    dask_client_address: str | None = None,
    dask_scheduler_file: StrPath | None = None,
    dask_slurm: str | None = None,
    dask_timeout: float = 300,
    lustre_stripe: int | str | None = None,
    lustre_pool: str | None = None,
    progress: Tell | None = None,
    beam_options: Sequence[str] = (),
) -> SealedSet:
    """Rebalance a data set extended with ``append``, without its raw data; or finish doing so.

    ``dataprep.compact("OUT")``. Then it is, byte for byte, what would have been made at once of all
    images, with its classes in their order. If it was not extended, nothing is done.

    Args:
        out: the data set.
        verify: How far to verify the files of OUT first; see `dataprep verify`.
        workers: Cores of this machine to use; with one of Beam's runners, threads of each
            of its workers. Dask's workers have threads of their own. [default: all cores
            that this process may use]
        io_limit: Bytes a second that all processes on this machine together may read and
            write, e.g. 200MB. [default: no limit]
        build_dir: Directory in which to build LMDB and HDF5 files before they are copied.
            [default: node-local scratch if the output is on a network file system]
        runner: direct: this machine. dask: a Dask cluster. Or one of Beam's runners, e.g.
            FlinkRunner, whose own options follow `--`.
        dask_client_address: Address of a Dask scheduler, e.g. tls://10.0.0.1:8786.
        dask_scheduler_file: File to which a Dask scheduler writes its address, as that of
            dask-mpi does.
        dask_slurm: Start Dask's workers as Slurm jobs, and end them afterwards:
            nodes=4,cores=16,memory=32GB[,partition=,account=,walltime=,...].
        dask_timeout: Give up after this long without a worker.
        lustre_stripe: Lustre layout of the directories that are written. auto: by the size
            of the files, unless the site has a progressive layout. COUNT: this many
            stripes, -1: all targets. off: set none. [default: auto, but a layout that was
            chosen before is kept]
        lustre_pool: Pool of the targets to use, where the site has several, e.g. flash.
        progress: see `dataprep.prepare`.
        beam_options: likewise.

    Raises:
        UsageError: an option that there is not.
        DatasetError: there is no data set, it is damaged, or it was converted.
        DataprepError: any other of its kinds; everything committed so far is kept.
    """

def stage(
    source: StrPath,
    *,
    to: StrPath | None = None,
    split: str | Sequence[str] | None = None,
    share: Literal['node'] | None = None,
    shared: bool = False,
    verify: Literal['none', 'copy', 'reread'] = 'copy',
    bandwidth: int | str | None = None,
    broadcast: Literal['mpi'] | None = None,
    rendezvous: str | None = None,
    rendezvous_seconds: float = 300,
    progress: Tell | None = None,
) -> Path:
    """Copy a data set to this node's own storage, hashed on the way; what is there is used again.

    Called in every process of a job, one a node copies and the others wait. Returns the directory
    of the copy.

    Args:
        source: a directory that dataprep made, or any directory of files; or a data set in a
            bucket, ``s3://BUCKET/PREFIX``, ``gs://…`` or ``az://…``.
        to: Put the files directly into DIR. [default: a directory of this job in
            $DATAPREP_SCRATCH, $SLURM_TMPDIR, $LOCAL_SCRATCH, $PBS_JOBFS, /mnt/bb/$USER,
            $TMPDIR, /local/scratch or /tmp, the first that exists]
        split: Copy only this split. May be repeated. [default: all]
        share: node: give each of N nodes 1/N of the shards; node loads differ by at most
            one shard. A split with fewer shards than nodes is copied whole. [default:
            everything to every node]
        shared: Let several of your jobs on a node use one copy; give it in all of them.
        verify: How to check the copy. none: compare sizes. copy: also hash what is read,
            and compare it with the manifest. reread: also read the copy back from the
            node's storage.
        bandwidth: Read at most this much a second on each node, e.g. 500MB. [default: no
            limit]
        broadcast: mpi: read every byte once and send it to all nodes. Needs the extra mpi,
            and mpirun or srun --mpi.
        rendezvous: Where nodes coordinate: HOST:PORT of node 0, or none. Where no scheduler
            or MPI tells of nodes, such as under pdsh, set RANK and WORLD_SIZE in the
            environment of each. [default: the job's first node, if the scheduler names it]
        rendezvous_seconds: Give up if not all nodes have come after this long; nothing is
            copied then.
        progress: see `dataprep.prepare`.

    Raises:
        NoRoomError: a node has too little space; nothing was copied anywhere.
        StagingError: the copy could not be made, or cannot be trusted.
    """
