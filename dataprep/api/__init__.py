"""What stands behind ``import dataprep``: its calls, their options, progress and results."""
