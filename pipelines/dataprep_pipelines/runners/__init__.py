"""Where Beam graphs run: this machine, a Dask cluster, or any runner that Beam knows by name."""

from dataprep_pipelines.runners.engine import STOP, Engine, Parallelism, Round, RunningEngine

__all__ = ["STOP", "Engine", "Parallelism", "Round", "RunningEngine"]
