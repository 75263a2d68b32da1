"""Made-up raw data sets in the layout of real ones, for trying things out and for tests."""
