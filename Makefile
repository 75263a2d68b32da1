# Two commands for a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
DEMO ?= demo

MXNET := $(VENV)-mxnet

.PHONY: demo test test-container readers test-example check setup bench clean

$(VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable . --group dev
	touch $@

setup: $(VENV)/.ready

# Synthesize small raw sets, make TFRecord shards of them, check them, and look inside.
demo: setup
	test -e $(DEMO)/raw || $(BIN)/dataprep synthesize imagenet $(DEMO)/raw
	$(BIN)/dataprep imagenet --raw_data_dir $(DEMO)/raw --local_scratch_dir $(DEMO)/out
	$(BIN)/dataprep verify $(DEMO)/out --level decode
	$(BIN)/dataprep inspect $(DEMO)/out
	test -e $(DEMO)/cxr || $(BIN)/dataprep synthesize chestxray14 $(DEMO)/cxr
	$(BIN)/dataprep chestxray14 --raw_data_dir $(DEMO)/cxr --local_scratch_dir $(DEMO)/cxr-out
	$(BIN)/dataprep inspect $(DEMO)/cxr-out
	@echo "look at: $(DEMO)/out/train, $(DEMO)/out/validation, $(DEMO)/out/manifest.json, $(DEMO)/cxr-out"

# Without `make readers`, the tests that read our files with other people's readers, or need MPI or
# Dask, skip and say so; those that need a Slurm do where its daemons are not installed.
test: setup
	$(if $(wildcard $(MXNET)/.ready),DATAPREP_MXNET_PYTHON=$(abspath $(MXNET)/bin/python)) \
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 4

# Those readers, 3 GB or more, MPI and Dask. MXNet 1.9.1 wants a numpy older than anybody else's.
readers: setup $(MXNET)/.ready
	$(BIN)/python -m pip install --quiet --editable ".[tensorflow,dali,webdataset,mpi,dask]" --group torch --group mpi

$(MXNET)/.ready:
	$(PYTHON) -m venv $(MXNET)
	$(MXNET)/bin/python -m pip install --quiet "mxnet==1.9.1" "numpy==1.23.5"
	touch $@

# A third party's format and data set, in an environment of their own.
test-example:
	examples/dataprep-mds/run_tests.sh $(PYTHON) $(VENV)-mds
	examples/dataprep-pets/run_tests.sh $(PYTHON) $(VENV)-mds

# Builds the image and runs it, as root, with buildah and debootstrap; docs/containers.md.
test-container: setup
	$(BIN)/python -m pytest -m container -s tests/containers

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Long; see docs/performance.md. IMAGES=DIR uses <class>/*.JPEG found there.
bench: setup
	$(BIN)/python -m benchmarks $(if $(IMAGES),--images $(IMAGES))

clean:
	rm -rf $(VENV) $(MXNET) $(VENV)-mds $(DEMO)
