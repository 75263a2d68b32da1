"""Batch scripts that stage a data set on every node, train from there and clean up."""
