"""Directories and archives: what is in them, and reading it where it lies."""
