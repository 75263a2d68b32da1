"""Made-up raw sets in the layouts of real ones, for a first try and for tests."""
