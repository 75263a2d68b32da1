"""Objects in buckets: by address, by range, with the credentials that the ecosystem has."""
