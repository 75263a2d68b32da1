# Two commands for a fresh machine: `make demo` and `make test`; CI runs `make test-all`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
DEMO ?= demo

MXNET := $(VENV)-mxnet
PEERS := $(VENV)-peers
TOOLS := datasets litdata mds mxnet s3fs spdl tfds webdataset
AZURITE := $(VENV)-azurite
PANDAS := $(VENV)-pandas2 $(VENV)-pandas3
BESIDE := $(VENV)-beside
FOREIGN := $(VENV)-foreign
PETASTORM := $(VENV)-petastorm
# Four also on two cores, since many tests wait. What is left is taken over.
PARALLEL := --numprocesses $(shell n=$$(nproc); echo $$((n > 4 ? n : 4))) --dist worksteal
# Each of the processes that run tests would compile and rewrite all of them again.
unexport PYTHONDONTWRITEBYTECODE
# Where those are that cannot be beside the others.
ELSEWHERE = $(if $(wildcard $(MXNET)/.ready),DATAPREP_MXNET_PYTHON=$(abspath $(MXNET)/bin/python)) \
  $(if $(wildcard $(PETASTORM)/.ready),DATAPREP_PETASTORM_PYTHON=$(abspath $(PETASTORM)/bin/python)) \
  $(if $(wildcard $(VENV)-mds/bin/python),DATAPREP_MDS_PYTHON=$(abspath $(VENV)-mds/bin/python)) \
  $(if $(wildcard $(PEERS)/s3fs/.ready),DATAPREP_S3FS_PYTHON=$(abspath $(PEERS)/s3fs/bin/python)) \
  $(if $(wildcard $(AZURITE)/.ready),DATAPREP_AZURITE=$(abspath $(AZURITE)/node_modules/.bin/azurite-blob))
EVERYDAY = -m "not thorough and not container" $(PARALLEL) $(TESTS)

.PHONY: demo test test-all test-nightly test-light test-lowest test-pre test-remote test-container buckets readers test-example check crash fuzz simulate docs dist setup bench peers clean

$(VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable ".[report]" --group dev
	touch $@

setup: $(VENV)/.ready

# Synthesize small raw sets, make TFRecord shards of them, check them, and look inside.
demo: setup
	test -e $(DEMO)/raw || $(BIN)/dataprep synthesize imagenet $(DEMO)/raw
	$(BIN)/dataprep imagenet --raw_data_dir $(DEMO)/raw --local_scratch_dir $(DEMO)/out
	$(BIN)/dataprep verify $(DEMO)/out --level decode
	$(BIN)/dataprep lint $(DEMO)/out
	test -e $(DEMO)/cxr || $(BIN)/dataprep synthesize chestxray14 $(DEMO)/cxr
	$(BIN)/dataprep chestxray14 --raw_data_dir $(DEMO)/cxr --local_scratch_dir $(DEMO)/cxr-out
	$(BIN)/dataprep inspect $(DEMO)/cxr-out
	$(BIN)/dataprep report $(DEMO)/cxr-out
	@echo "look at: $(DEMO)/out/train, $(DEMO)/out/manifest.json, and in a browser:"
	@$(BIN)/dataprep report $(DEMO)/out

# Every format and every promise once, in minutes.
test: setup
	$(BIN)/python -m pytest $(EVERYDAY)

# Also sweeps, every kill, and what reads our files with other people's readers or needs MPI, Dask or
# Slurm: without `make readers`, or where the daemons are not installed, those skip and say so.
test-all: setup
	$(ELSEWHERE) $(BIN)/python -m pytest -m "not container and not nightly" $(PARALLEL)

# More of the sweeps, and all readers of docs/readers.md; with `make crash` it is what CI does at night.
test-nightly: readers $(FOREIGN)/.ready $(PETASTORM)/.ready
	$(ELSEWHERE) $(BIN)/python -m pytest -m nightly $(PARALLEL)

# Buckets: moto's S3, azurite's Azure (which wants Node.js), clients of others, and servers that misbehave.
test-remote: setup buckets
	$(BIN)/python -m pip install --quiet --editable ".[remote]" --group remote
	$(ELSEWHERE) $(BIN)/python -m pytest tests/remote $(PARALLEL)

buckets: $(PEERS)/s3fs/.ready $(if $(shell command -v npm 2>/dev/null),$(AZURITE)/.ready)

$(AZURITE)/.ready:
	npm install --silent --no-fund --no-audit --prefix $(@D) azurite@3 && touch $@ \
	  || echo "azurite cannot be had from npm here: its tests skip"

# Without Beam, what only reads, stages and verifies; docs/installing.md.
test-light: LIGHT := $(VENV)-light
test-light: TESTS := tests/sealed tests/training tests/staging tests/review
test-light: setup
	$(PYTHON) -m venv --clear $(LIGHT)
	$(LIGHT)/bin/python -m pip install --quiet "pip>=25.1"
	$(LIGHT)/bin/python -m pip install --quiet --requirement docker/light.txt --group test "jinja2>=3.1" "matplotlib>=3.8"
	$(LIGHT)/bin/python -m pip install --quiet --no-deps --editable .
	! $(LIGHT)/bin/python -c 'import apache_beam' 2>/dev/null
	$(LIGHT)/bin/python -m pytest $(EVERYDAY)

# With the oldest versions that pyproject.toml promises to work with and that have wheels for this
# Python, or with pre-releases of everything, as CI does every night.
# Ours is built: --only-binary alone forbids that, too.
test-lowest: VERSIONS := --resolution lowest-direct --only-binary :all: --no-binary dataprep-shards
test-pre: VERSIONS := --prerelease allow
test-lowest test-pre: test-%: setup
	$(BIN)/python -m pip install --quiet --group lowest
	$(BIN)/uv venv --quiet --clear --seed --python $(BIN)/python $(VENV)-$*
	$(BIN)/uv pip install --quiet --python $(VENV)-$*/bin/python $(VERSIONS) \
	  --editable ".[report]" --group test
	$(VENV)-$*/bin/python -m pytest $(EVERYDAY)

# Those readers, 3 GB or more, MPI and Dask. MXNet 1.9.1 wants a numpy older than anybody else's, and
# notebooks are tried with both versions of pandas.
readers: setup buckets $(MXNET)/.ready $(PANDAS:=/.ready) $(BESIDE)/.ready
	$(BIN)/python -m pip install --quiet \
	  --editable ".[tensorflow,dali,webdataset,arrayrecord,huggingface,mpi,dask,remote,report]" \
	  --group trainers --group mpi --group catalogues --group remote

$(VENV)-pandas%/.ready: | setup
	$(BIN)/python -m pip install --quiet --no-deps --target $(@D) "pandas==$*.*"
	touch $@

# Others change when these are there: Lightning imports torchvision, which fits PyTorch's builds for CUDA
# only, and Grain wants absl's flags parsed where there is JAX.
$(BESIDE)/.ready: | setup
	$(BIN)/python -m pip install --quiet --no-deps --target $(@D) "torchvision==0.28.*"
	$(BIN)/python -m pip install --quiet --target $(@D) "jax>=0.5"
	touch $@

# Readers of docs/readers.md that would change what others are given: without what they declare.
$(FOREIGN)/.ready: | setup
	$(BIN)/python -m pip install --quiet --no-deps --target $(@D) --group foreign
	touch $@

# It wants a pyarrow that is for Python before 3.12.
$(PETASTORM)/.ready:
	$(PYTHON) -m venv $(PETASTORM)
	$(PETASTORM)/bin/python -m pip install --quiet --no-deps "petastorm==0.13.1"
	$(PETASTORM)/bin/python -m pip install --quiet --only-binary :all: "pyarrow==11.0.0" "numpy==1.26.4" "pandas==2.1.4" \
	  diskcache dill future psutil pyzmq six packaging fsspec "setuptools<70" && touch $@ \
	  || echo "Petastorm's pyarrow cannot be had for this Python: its tests skip"

$(MXNET)/.ready:
	$(PYTHON) -m venv $(MXNET)
	$(MXNET)/bin/python -m pip install --quiet "mxnet==1.9.1" "numpy==1.23.5"
	touch $@

# A third party's format and data set, in an environment of their own.
test-example:
	examples/dataprep-mds/run_tests.sh $(PYTHON) $(VENV)-mds
	examples/dataprep-pets/run_tests.sh $(PYTHON) $(VENV)-mds
	examples/dataprep-lmdb-torch/run_tests.sh $(PYTHON) $(VENV)-mds

# Builds the image and runs it, as root, with buildah and debootstrap; docs/installing.md.
test-container: setup
	$(BIN)/python -m pytest -m container -s tests/containers

# A million schedules of launchers and workers on simulated hosts, half an hour or more; docs/reliability.md.
simulate: setup
	$(BIN)/python -m tests.simulation

# Every state that a crash may leave, a quarter of an hour of one core; docs/reliability.md.
crash: setup
	DATAPREP_CRASH_STATE=all $(BIN)/python -m pytest tests/crash $(PARALLEL)

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# An hour of hostile inputs, other ones each time; docs/reliability.md.
fuzz: setup
	nice $(BIN)/python -m tests.fuzz --hour

# The pages of docs/ as a site in site/, to be read without a network.
docs: setup
	$(BIN)/python -m pip install --quiet --group docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# What a release is made of: the same bytes whenever, and wherever, one commit is built.
dist: setup
	rm -rf dist
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -m hatchling build --directory dist
	$(BIN)/python -m pip install --quiet --group release
	$(BIN)/twine check --strict dist/*

# Hours, or QUESTION=peers alone; see docs/performance.md. IMAGES=DIR uses <class>/*.JPEG found there.
bench: setup
	$(BIN)/python -m benchmarks $(QUESTION) $(if $(IMAGES),--images $(IMAGES))

# Beside the tools that people would take instead, each in an environment of its own, 14 GB together,
# since some of them import whatever else they find. MXNet 1.9.1 needs CPython 3.8 to 3.11.
peers: setup $(TOOLS:%=$(PEERS)/%/.ready)
	$(BIN)/python -m benchmarks peers --peers $(PEERS) $(if $(IMAGES),--images $(IMAGES))

$(PEERS)/datasets/.ready: NEEDS := datasets pillow
$(PEERS)/litdata/.ready: NEEDS := litdata pillow simplejpeg
$(PEERS)/mds/.ready: NEEDS := mosaicml-streaming pillow simplejpeg
$(PEERS)/mxnet/.ready: NEEDS := mxnet==1.9.1 numpy==1.23.5 opencv-python-headless==4.8.1.78
$(PEERS)/s3fs/.ready: NEEDS := s3fs
$(PEERS)/spdl/.ready: NEEDS := spdl torch numpy pillow simplejpeg
$(PEERS)/tfds/.ready: NEEDS := tensorflow-datasets tensorflow-cpu importlib_resources pillow
$(PEERS)/webdataset/.ready: NEEDS := webdataset pillow

$(PEERS)/%/.ready:
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet $(NEEDS)
	touch $@

clean:
	rm -rf $(VENV) $(AZURITE) $(MXNET) $(PEERS) $(VENV)-lowest $(VENV)-pre $(PANDAS) $(BESIDE) $(VENV)-mds $(VENV)-newest $(DEMO) dist site
