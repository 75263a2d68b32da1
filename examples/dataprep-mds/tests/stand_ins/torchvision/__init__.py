"""Stands in for torchvision, of which `import streaming` wants two names that MDS never uses.

The wheels of torchvision on PyPI are built for CUDA, and do not load beside a torch for CPUs
(https://github.com/pytorch/vision/issues/9085). ``run_tests.sh`` puts this folder on PYTHONPATH;
nobody else does, and with a real torchvision nobody needs to.
"""
