"""LMDB: the environment, and Caffe's values in it."""
