"""What stands behind ``import dataprep``: its calls, their options and progress."""
