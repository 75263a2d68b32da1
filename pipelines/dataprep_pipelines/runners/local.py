"""This machine: Beam's own FnApiRunner, named explicitly.

Left to its defaults, Beam tries to download another runner's binary before anything runs, which on
a node without internet is an error or a long hang.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dataprep.system.throttle import divide
from dataprep_pipelines.runners.engine import Engine
from dataprep_pipelines.runners.running import Running
from dataprep_pipelines.runners.share import Share, local_share, processes_for

if TYPE_CHECKING:
    import apache_beam as beam


class LocalRunning(Running):
    """Threads of this process, and further processes of it beyond a few cores."""

    is_local = True

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def share(self, shards: int, *, images: int) -> Share:
        """Divides the shards among processes, or their images where shards are few."""
        return local_share(self._engine.workers, shards, images=images)

    def at_once(self, share: Share) -> int:
        """The lanes of all processes."""
        return share.processes * share.lanes

    def scan_share(self) -> Share:
        """As many processes as when writing many shards."""
        return Share(processes_for(self._engine.workers))

    def scan_helpers(self) -> int:
        """As many as the cores of one worker process."""
        return max(self._engine.workers // processes_for(self._engine.workers), 1)

    def pipeline(self, share: Share) -> beam.Pipeline:
        """One that never asks the network for anything."""
        # Imported here so that `dataprep --help` and staging never load Beam.
        import apache_beam as beam
        from apache_beam.options.pipeline_options import PipelineOptions

        divide(share.processes)
        # Not --direct_running_mode=multi_processing: it would start Beam's worker, not ours.
        workers = f"--direct_num_workers={share.processes}"
        options = PipelineOptions([workers, *self._engine.beam_options])
        return beam.Pipeline(runner=_runner(options, share.processes), options=options)


def _runner(options: Any, processes: int) -> Any:
    from apache_beam.portability.api import beam_provision_api_pb2
    from apache_beam.runners.portability.fn_api_runner import fn_runner
    from apache_beam.runners.portability.portable_runner import JobServiceHandle
    from apache_beam.transforms.environments import SubprocessSDKEnvironment

    from dataprep_pipelines.worker import command_line

    encoded = JobServiceHandle.encode_pipeline_options(options.get_all_options())
    information = beam_provision_api_pb2.ProvisionInfo(pipeline_options=encoded)
    worker = SubprocessSDKEnvironment.from_command_string(command_line())
    return fn_runner.FnApiRunner(
        worker if processes > 1 else None,  # None: in this process
        provision_info=fn_runner.ExtendedProvisionInfo(information),
    )
