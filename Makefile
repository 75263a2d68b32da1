# Two commands for a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
DEMO ?= demo

.PHONY: demo test check setup bench clean

$(VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable . --group dev
	touch $@

setup: $(VENV)/.ready

# Synthesize a small raw set, make TFRecord shards of it, check them, and look inside.
demo: setup
	test -e $(DEMO)/raw || $(BIN)/dataprep synthesize imagenet $(DEMO)/raw
	$(BIN)/dataprep imagenet --raw_data_dir $(DEMO)/raw --local_scratch_dir $(DEMO)/out
	$(BIN)/dataprep verify $(DEMO)/out --level decode
	$(BIN)/dataprep inspect $(DEMO)/out
	@echo "look at: $(DEMO)/out/train, $(DEMO)/out/validation, $(DEMO)/out/manifest.json"

# EXTRAS=tensorflow,dali also reads the shards back with the real readers.
test: setup
	$(if $(EXTRAS),$(BIN)/python -m pip install --quiet --editable ".[$(EXTRAS)]")
	$(BIN)/python -m pytest

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Long; see docs/performance.md. IMAGES=DIR uses <class>/*.JPEG found there.
bench: setup
	$(BIN)/python -m benchmarks $(if $(IMAGES),--images $(IMAGES))

clean:
	rm -rf $(VENV) $(DEMO)
