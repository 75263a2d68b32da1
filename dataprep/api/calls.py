"""The front door: what the commands do, as calls. Reached as ``dataprep.prepare`` and so on.

No call ends the process, catches signals, or leaves anything behind in it. All errors are in
`dataprep.errors`; their messages speak of the command's options, which have the same names.
``progress`` is told a `Progress` again and again, ``print`` will do; by default there is a bar in a
terminal or a notebook, and nothing elsewhere.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from multiprocessing import current_process
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dataprep.api.places import located, not_empty
from dataprep.api.progress import Reporter, Tell, told
from dataprep.archives.listing import is_clutter_folder
from dataprep.errors import DatasetError, UsageError
from dataprep.options import StrPath, built, options_of
from dataprep.remote.store import address_of
from dataprep.system.filesystems import walk
from dataprep.system.job_limits import usable_cores

if TYPE_CHECKING:
    from dataprep.api.parameters import Options
    from dataprep.jobs.preparing.dry_run import Plan
    from dataprep.jobs.request import ConvertRequest, Request
    from dataprep.jobs.running.status import JobStatus
    from dataprep.sealed.diff import Difference
    from dataprep.sealed.set import SealedSet
    from dataprep.sealed.verify import Level, Verified
    from dataprep.staging.push import Pushed
    from dataprep.staging.request import StageRequest
    from dataprep_pipelines.runners import Engine

# Options that say nothing to other engines.
_OF_DASK = ("dask_client_address", "dask_scheduler_file", "dask_slurm", "dask_timeout")
_OF_THIS_MACHINE = ("io_limit",)
_BEAMS_PROCESSES = "multi_processing"  # of --direct_running_mode

_OURS = (".dataprep", "manifest.json")


def prepare(
    dataset: str,
    raw: StrPath | None = None,
    out: StrPath | None = None,
    *,
    progress: Tell | None = None,
    beam_options: Sequence[str] = (),
    **options: Any,
) -> SealedSet:
    """Turn raw images into shuffled, verified shards; or finish doing so.

    Killed at any moment, the same call resumes. ``dataprep.imagenet("RAW", "OUT", resize=256)`` is
    ``dataprep imagenet --raw_data_dir RAW --local_scratch_dir OUT --resize 256``; so is
    ``dataprep.prepare("imagenet", "RAW", "OUT", resize=256)``, which also knows the data sets of
    plugins. In a script, call it under ``if __name__ == "__main__":``, as all that starts
    processes.

    Args:
        dataset: ``imagenet``, ``chestxray14``, ``folder``, ``shards``, or that of a plugin.
        raw: directory of the raw images, or its address in a bucket.
        out: directory for the shards and ``manifest.json``.
        progress: is told a `Progress` again and again; ``print`` will do. By default there is a
            bar in a terminal or a notebook, and nothing elsewhere.
        beam_options: Beam's own, e.g. ``["--flink_master=HOST:PORT"]``.
        options: of the command, under the same names; what it takes with commas may be a list
            or a dict: ``fractions={"train": 0.9, "test": 0.1}``.

    Raises:
        UsageError: an option that there is not, or that cannot have this value.
        RejectedError: more images were rejected than ``max_bad`` allows; nothing was sealed.
        DataprepError: any other of its kinds; everything committed so far is kept.
    """
    call, request = _prepared(dataset, {"raw": raw, "out": out, **options}, beam_options)
    from dataprep.jobs.preparing.append import append
    from dataprep.jobs.preparing.found import ready
    from dataprep.jobs.preparing.prepare import prepare
    from dataprep_pipelines.run import Launcher

    run = append if request.append else prepare
    with call.running(progress) as reporter:
        return _told(run(ready(request), Launcher(call.engine), reporter), out, reporter)


def plan(
    dataset: str,
    raw: StrPath | None = None,
    out: StrPath | None = None,
    *,
    progress: Tell | None = None,
    beam_options: Sequence[str] = (),
    **options: Any,
) -> Plan:
    """Find out what `prepare` would make, and write nothing.

    Args:
        dataset: as for `prepare`, like all else.

    Raises:
        DataprepError: what a run would raise before it writes.
    """
    call, request = _prepared(dataset, {"raw": raw, "out": out, **options}, beam_options)
    if request.append:
        raise UsageError("--dry_run tells of whole data sets only; leave out --append")
    return _planned(call, request, progress)


def _prepared(
    dataset: str, given: Mapping[str, Any], beam_options: Sequence[str], *, foreign: bool = False
) -> tuple[_Call, Request]:
    """A call, and what it asks for; `foreign`: whatever is in OUT, which is not looked at."""
    from dataprep.api.options import chosen_striping, prepare_options
    from dataprep.jobs.request import Request
    from dataprep.plugins import dataset_class
    from dataprep.recipe import Recipe

    kind = dataset_class(dataset)
    call = _Call(prepare_options(kind), given, beam_options)
    request = built(
        Request,
        call.values,
        dataset=kind.name,
        dataset_options={each.name: call.values[each.name] for each in options_of(kind.Options)},
        recipe=built(Recipe, call.values, passes=tuple(kind.formats)),
        striping=chosen_striping(call.values),
    )
    if not foreign:
        _check_foreign(request.out)
    return call, request


def plan_raw(raw: Path, dataset: str, rule: str) -> Plan:
    """What would be made of raw data with every option's default.

    Args:
        rule: why it is taken for this data set.
    """
    call, request = _prepared(dataset, {"raw": raw, "out": "OUT"}, (), foreign=True)
    return _planned(call, request, None, rule)


def _planned(call: _Call, request: Request, progress: Tell | None, rule: str | None = None) -> Plan:
    from dataprep.jobs.preparing.dry_run import dry_run
    from dataprep_pipelines.run import Launcher
    from dataprep_pipelines.runners import Engine

    Launcher(call.engine).check()
    here = Engine(workers=call.engine.workers)  # only this machine sees the temporary index
    with call.running(progress, messages=False) as reporter:
        return dry_run(request, Launcher(here), reporter, here.workers, rule)


def convert(
    source: StrPath,
    *,
    progress: Tell | None = None,
    beam_options: Sequence[str] = (),
    **options: Any,
) -> SealedSet:
    """Convert a finished data set to another format, without its raw data; or finish doing so.

    ``dataprep.convert("OUT", to="OUT2", sink="lmdb")``. Order and labels stay, and the bytes of
    the images unless ``resize``, ``quality`` or the like is given.

    Args:
        source: the data set.
        progress: see `dataprep.prepare`.
        beam_options: likewise.

    Raises:
        UsageError: an option that there is not, or a format that cannot hold the data set.
        DatasetError: the source is damaged.
        DataprepError: any other of its kinds; everything committed so far is kept.
    """
    from dataprep.api.options import convert_options
    from dataprep.jobs.request import ConvertRequest

    call = _Call(convert_options(), options, beam_options)
    return _convert(call, ConvertRequest, (located(source),), progress, options.get("to"))


def select(
    *sources: StrPath | Mapping[str, StrPath],
    progress: Tell | None = None,
    beam_options: Sequence[str] = (),
    **options: Any,
) -> SealedSet:
    """Make a data set of chosen images of finished ones, without their raw data; or finish that.

    ``dataprep.select("OUT", to="OUT2", where="view = 'PA'", relabel="corrected.csv")``. Images that
    are kept byte for byte come out as if they had been prepared so from the raw data.

    Args:
        sources: data sets, of which one is made; or one mapping of names to them, which are put
            before their keys.
        progress: see `dataprep.prepare`.
        beam_options: likewise.

    Raises:
        UsageError: an option that there is not, or what is to be taken cannot be told.
        DatasetError: a source is damaged, nothing would be taken, or two images of one name.
        DataprepError: any other of its kinds; everything committed so far is kept.
    """
    from dataprep.api.options import select_options
    from dataprep.jobs.request import SelectRequest
    from dataprep.sealed.set import SealedSet
    from dataprep.tables.chosen import Selection

    call = _Call(select_options(), options, beam_options)
    named: dict[str, StrPath] = {}
    for source in sources:
        if isinstance(source, Mapping):
            named |= source
    places = [path for path in named.values() or sources if not isinstance(path, Mapping)]
    paths = tuple(located(path) for path in places)
    if not paths or (named and len(sources) > 1):
        raise UsageError("dataprep select: expected data sets, or one mapping of names to them")
    if not call.values["sink"]:
        first = SealedSet.read(paths[0]).manifest.sink
        kept = {**first.config, **call.values["sink_option"]}
        call.values |= {"sink": first.name, "sink_option": kept}
    chosen = built(Selection, call.values, names=tuple(named))
    return _convert(call, SelectRequest, paths, progress, options.get("to"), selection=chosen)


def _convert(
    call: _Call,
    kind: type[ConvertRequest],
    sources: tuple[Path, ...],
    progress: Tell | None,
    out: StrPath | None,
    **more: Any,
) -> SealedSet:
    from dataprep.api.options import chosen_striping
    from dataprep.jobs.request import ImagesAnew

    request = built(
        kind,
        call.values,
        sources=tuple(path.absolute() for path in sources),
        striping=chosen_striping(call.values),
        recipe=built(ImagesAnew, call.values).recipe,
        **more,
    )
    _check_foreign(request.out)
    from dataprep.jobs.deriving.convert import convert
    from dataprep_pipelines.run import Launcher

    with call.running(progress) as reporter:
        made = convert(request, Launcher(call.engine), reporter, call.verifier(reporter))
        return _told(made, out, reporter)


def compact(
    out: StrPath, *, progress: Tell | None = None, beam_options: Sequence[str] = (), **options: Any
) -> SealedSet:
    """Rebalance a data set extended with ``append``, without its raw data; or finish doing so.

    ``dataprep.compact("OUT")``. Then it is, byte for byte, what would have been made at once of all
    images, with its classes in their order. If it was not extended, nothing is done.

    Args:
        out: the data set.
        progress: see `dataprep.prepare`.
        beam_options: likewise.

    Raises:
        UsageError: an option that there is not.
        DatasetError: there is no data set, it is damaged, or it was converted.
        DataprepError: any other of its kinds; everything committed so far is kept.
    """
    from dataprep.api.options import chosen_striping, compact_options
    from dataprep.jobs.request import Building, ConvertRequest
    from dataprep.sealed.set import SealedSet

    call = _Call(compact_options(), options, beam_options)
    place = Path(not_empty(out)).absolute()
    request = ConvertRequest(
        **vars(built(Building, call.values)),
        sources=(place,),
        out=place,
        sink="",
        striping=chosen_striping(call.values),
    )
    from dataprep.jobs.deriving.convert import compact
    from dataprep_pipelines.run import Launcher

    try:
        before = SealedSet.read(place).manifest.sha256
    except DatasetError:  # for the run to explain, or of one that was killed, to finish
        before = ""
    with call.running(progress) as reporter:
        made = compact(request, Launcher(call.engine), reporter, call.verifier(reporter))
        if made.manifest.sha256 != before:
            return _told(made, out, reporter)
        reporter.line(f"{out}: nothing to compact, since nothing was added with --append")
        return replace(made, out=Path(out))


def verify(
    out: StrPath,
    *,
    level: str = "hash",
    discard: bool = False,
    workers: int | None = None,
    progress: Tell | None = None,
) -> Verified:
    """Check a finished data set against its manifest, naming every bad file.

    Args:
        out: where it is; or a ``.tar`` that `push` made, for the first two levels.
        level: ``size``, ``hash``, ``records``, ``decode`` or ``reader``, each with more than the
            one before; see ``dataprep verify``.
        discard: delete the damaged files, so that the command that made them makes only those
            anew; not those that cannot be read.
        workers: cores to use; None for those this process may use.

    Returns:
        What was found: `problems` is empty if everything is good.

    Raises:
        DatasetError: there is no intact manifest to check against, or nothing could make again
            what is to be deleted.
        UsageError: no such level; or the format, or its own reader, is not installed.
    """
    from dataprep.sealed.verify import LEVELS

    if level not in LEVELS:
        raise UsageError(f"level={level!r} is none of {', '.join(LEVELS)}")
    place = located(out)
    if discard and (address_of(out) or place.is_file()):
        raise UsageError("nothing is deleted in a bucket or an archive: push the data set again")
    with told(progress) as reporter:
        found = _verified(place, LEVELS[LEVELS.index(level)], workers, reporter)
    if not found.problems:
        return found
    if address_of(out) or place.is_file():
        return replace(found, remedy="run `dataprep push` again: it replaces what is bad")
    from dataprep.jobs.running import clearing  # late: what is whole needs none of it

    gone = clearing.discard(place, found) if discard else []
    remedy = clearing.remedy(place, found, discarded=discard)
    return replace(found, remedy=remedy, discarded=tuple(gone))


def push(
    out: StrPath,
    to: StrPath,
    *,
    overwrite: bool = False,
    delete_others: bool = False,
    dry_run: bool = False,
    progress: Tell | None = None,
) -> Pushed:
    """Copy a finished data set elsewhere: its files, each checked, and its manifest last.

    Started again after a kill, it copies what is missing, by size and hash; an archive is begun
    anew.

    Args:
        to: ``s3://BUCKET/PREFIX``, ``gs://BUCKET/PREFIX`` or ``az://CONTAINER/PREFIX``; a
            directory; or the name of an archive, which ends in ``.tar``.
        overwrite: replace a data set there that this one does not descend from, or an archive.
        delete_others: delete all else that is there at the end, which who reads an older
            generation of the data set may still need.
        dry_run: only find out what would be done.

    Raises:
        DatasetError: there is no whole data set, a file of it is damaged, or another data set is
            there.
        RemoteError: the store does not answer, or refuses; the message says what to set.
        SinkError: a directory cannot be written.
        UsageError: `to` is no such place, or obstore is not installed.
    """
    from dataprep.staging.push import push as push_
    from dataprep.staging.tar import pack

    place = os.fspath(not_empty(to))
    archive = place.endswith(".tar") and address_of(place) is None
    if archive and delete_others:
        raise UsageError("delete_others has no meaning for an archive, which holds nothing else")
    with told(progress) as reporter:
        how = (
            partial(pack, to=Path(place))
            if archive
            else partial(push_, address=place, delete_others=delete_others)
        )
        return how(
            Path(not_empty(out)),
            overwrite=overwrite,
            dry_run=dry_run,
            begin=lambda total: reporter.begin("push", total, "byte"),
            advance=reporter.advance,
        )


def diff(
    a: StrPath, b: StrPath, *, workers: int | None = None, progress: Tell | None = None
) -> Difference:
    """Compare two data sets, whatever their formats, shards and order: keys, labels and images.

    Returns:
        How they differ; its `same` is whether they hold the same examples.

    Raises:
        DatasetError: there is no intact manifest.
        SinkError: a shard is damaged.
    """
    from dataprep.sealed.diff import diff as run
    from dataprep.sealed.set import SealedSet

    both = located(a), located(b)
    with told(progress) as reporter:
        reporter.begin("diff", sum(SealedSet.read(out).records for out in both), "record")
        return run(*both, threads=workers or usable_cores(), progress=reporter.advance)


def status(out: StrPath) -> JobStatus:
    """The state of the job in a directory: running, dead or finished; from any host.

    Raises:
        DatasetError: there is no job in it.
    """
    from dataprep.jobs.running.status import read_status

    return read_status(Path(not_empty(out)))


def stage(source: StrPath, *, progress: Tell | None = None, **options: Any) -> Path:
    """Copy a data set to this node's own storage, hashed on the way; what is there is used again.

    Called in every process of a job, one a node copies and the others wait. Returns the directory
    of the copy.

    Args:
        source: a directory that dataprep made, or any directory of files; or a data set in a
            bucket, ``s3://BUCKET/PREFIX``, ``gs://…`` or ``az://…``.
        progress: see `dataprep.prepare`.

    Raises:
        NoRoomError: a node has too little space; nothing was copied anywhere.
        StagingError: the copy could not be made, or cannot be trusted.
    """
    from dataprep.staging.stage import stage as run

    request = stage_request(source, options)
    with told(progress) as reporter:
        return run(request, reporter)


def stage_request(source: StrPath, options: Mapping[str, Any]) -> StageRequest:
    """What the options of ``dataprep stage`` ask for; see `stage`.

    Raises:
        UsageError: an option that there is not, or that cannot have this value.
    """
    from dataprep.api.options import stage_options
    from dataprep.staging.plan import absolute_source
    from dataprep.staging.request import StageRequest

    values = stage_options().settle(options)
    return built(StageRequest, values, source=absolute_source(not_empty(source)))


class _Call:
    """A call that runs a job: the value of every option, and the engine that they choose."""

    def __init__(
        self, options: Options, given: Mapping[str, Any], beam_options: Sequence[str]
    ) -> None:
        # Python's processes import the script when they start, and would start the job once more.
        if getattr(current_process(), "_inheriting", False):
            raise UsageError(
                "this script was imported by a process that it started itself; put its calls of "
                'dataprep under `if __name__ == "__main__":`'
            )
        self.values = options.settle(given)
        if any(map(given.get, ("dask_client_address", "dask_scheduler_file"))):
            self.values["dask_slurm"] = given.get("dask_slurm")  # not the site's
        self.engine = _engine(self.values, beam_options, given)

    @contextmanager
    def running(self, progress: Tell | None, *, messages: bool = True) -> Iterator[Reporter]:
        """Keep to ``io_limit`` meanwhile, in this process and in its children."""
        from dataprep.system.throttle import io_limited

        limit = self.values["io_limit"] if self.engine.is_local else None  # which a site may set
        with told(progress, messages=messages) as reporter, io_limited(limit):
            yield reporter

    def verifier(self, reporter: Reporter) -> Callable[[Path], Verified]:
        """Verifies data sets, as ``verify`` asks for it."""
        return lambda out: _verified(out, self.values["verify"], self.engine.workers, reporter)


def _told(sealed: SealedSet, out: StrPath | None, reporter: Reporter) -> SealedSet:
    """What was made, at the place that the caller named; and a line on it."""
    sealed = replace(sealed, out=Path(out or sealed.out))
    reporter.line(str(sealed))
    return sealed


def _verified(out: Path, level: Level, workers: int | None, reporter: Reporter) -> Verified:
    from dataprep.sealed.set import SealedSet
    from dataprep.sealed.tar import verify_tar
    from dataprep.sealed.verify import verify as run

    threads = workers or usable_cores()
    if out.is_file():
        reporter.begin("verify", out.stat().st_size, "byte")
        return verify_tar(out, level, threads=threads, progress=reporter.advance)
    sealed = SealedSet.read(out)
    files = [file.bytes for split in sealed.splits.values() for file in split.files]
    shards = [split.bytes for split in sealed.splits.values()]
    reporter.begin("verify", sealed.manifest.records_table.bytes + sum(files + shards), "byte")
    return run(out, level, threads=threads, progress=reporter.advance)


def _engine(
    values: Mapping[str, Any], beam_options: Sequence[str], given: Mapping[str, Any]
) -> Engine:
    """What runs the job."""
    from dataprep_pipelines.runners import Engine

    workers = values["workers"] or usable_cores()
    engine = built(Engine, values, workers=workers, beam_options=tuple(beam_options))
    ours = engine.is_local and not any(_BEAMS_PROCESSES in it for it in engine.beam_options)
    for names, of_use, what in (
        (_OF_DASK, engine.is_dask, "Dask's workers"),
        (_OF_THIS_MACHINE, ours, "the processes that dataprep starts on this machine"),
    ):
        for name in names:
            if given.get(name) is not None and not of_use:
                beams = " with Beam's own processes" * (engine.is_local and not ours)
                raise UsageError(f"--{name} is for {what}, but --runner is {engine.runner}{beams}")
    return engine


def _check_foreign(out: Path) -> None:
    """Refuse a directory with other people's files: shards among them would be a mess."""
    if any((out / name).exists() for name in _OURS):
        return
    # What is hidden is the file system's own, and folders may have got a layout.
    for _, entries in walk(
        out, lambda it: it.is_dir(follow_symlinks=False) and not is_clutter_folder(it.name)
    ):
        for entry in entries:
            if entry.name[0] != "." and not entry.is_dir():
                raise DatasetError(
                    f"{entry.path} is in the way: {out} is neither empty nor made by dataprep; "
                    "choose a new or an empty directory"
                )
