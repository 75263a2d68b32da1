"""Parquet with images in it: what we write, and what others have packed."""
