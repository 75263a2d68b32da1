"""A made-up ImageNet."""
