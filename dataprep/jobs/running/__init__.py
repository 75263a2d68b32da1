"""A job: claimed, written shard by shard, sealed; and what it finds in its way."""
