"""The package of `functional`."""
