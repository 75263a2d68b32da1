"""Which node this is, and what the nodes of a job tell each other."""
