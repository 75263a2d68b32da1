"""HDF5: the file, and the three layouts of images in it."""
