"""How fast and how large: dataprep beside ``cp``, the TPU script, im2rec and its own kernels.

``python -m benchmarks`` runs everything that can run here and prints one table. Each module
answers one question and returns rows; nothing here is a test, and nothing fails for being slow.
"""
