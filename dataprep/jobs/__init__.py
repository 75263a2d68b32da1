"""Building a data set in its output directory: index, order, shards, commit records, lock."""
