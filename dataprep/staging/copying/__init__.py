"""Bytes from a source into a target, hashed on the way."""
