"""A finished data set: parsed once, then read, verified and compared by attributes."""
