"""Making data sets of finished ones: convert, select, compact."""
