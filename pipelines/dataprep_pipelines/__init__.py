"""The Beam graphs that run dataprep's plain functions, and nothing else."""
