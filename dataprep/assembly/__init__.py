"""Building a data set in its output directory: index, deck, shards, commit records, lock."""
