"""Beam on a Dask cluster: one that is there already, or one started in Slurm."""
