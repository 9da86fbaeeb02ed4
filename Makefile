# Everything runs in .venv, which these targets make themselves. `make` alone lists them.
# Another interpreter: make test PYTHON=python3.13 (after `make distclean`, when .venv is there already).

PYTHON ?= python3
WORKERS ?= 2

BIN := .venv/bin
# setuptools warns of every editable installation; what it says of the build itself is in .venv/build.log.
PIP_INSTALL := PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
PYTEST := $(BIN)/python -m pytest -q -n $(WORKERS) --dist loadgroup
# Whatever, when it changes, asks for a new installation (the editable one follows changes of code by itself).
HOUSE := setup.cfg pyproject.toml constraints.txt __init__.py
# Bytecode is kept, whatever the environment says: many tests start processes, and each would compile all of rpsim anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help demo test quick lint format types unit slow docs notebooks interpreters verbs-vm wheel clean distclean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: .venv/.runtime  ## the quickstart: three stores, one power cut at every instant, the verdict
	$(BIN)/rpsim crash quickstart

# mypy has one thread and the tests leave a processor idle at their end: both at once, and what mypy says comes last.
test: lint wheel  ## all that must pass: lint, format, types, wheel and sdist, tests
	@$(BIN)/mypy >.venv/types.log 2>&1 & types=$$!; \
	echo 'RPSIM_DIST=dist $(PYTEST)'; RPSIM_DIST=dist $(PYTEST); tests=$$?; \
	wait $$types; typed=$$?; echo '$(BIN)/mypy'; cat .venv/types.log; exit $$((tests || typed))

# The budget is in units of tests/budget.py: processor time that a test may take here, or it has to be marked `long`.
# Most that it lets through is for what the first test of a kind pays for all: imports, platforms, every scheme's file.
quick: lint  ## lint, format, and the tests that are quick: a minute on two cores
	$(PYTEST) -m 'not slow and not long' --budget 120

lint: .venv/.dev  ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: .venv/.dev  ## let ruff mend what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: .venv/.dev  ## mypy, strict
	$(BIN)/mypy

unit: .venv/.dev  ## the tests without the slow ones, in WORKERS=2 processes
	$(PYTEST)

slow: .venv/.dev .venv/.docs  ## the slow tests
	$(BIN)/python -m pytest -m slow

# Tutorials run while the site is built, in processes that look for `rpsim` on the path.
docs: .venv/.docs  ## the documentation site, in build/docs/html; a warning is an error
	$(BIN)/python -m rpsim.app.site.write build/docs/source
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/sphinx-build --quiet --fail-on-warning --keep-going build/docs/source build/docs/html

notebooks: .venv/.docs  ## the labs and tutorials as notebooks, in build/notebooks
	$(BIN)/python -m rpsim.app.site.write --notebooks build/notebooks

interpreters: .venv/bin/python  ## the same bytes from every supported Python that is installed
	$(BIN)/python tests/interpreters.py

VM := build/verbs-vm
verbs-vm: .venv/.dev  ## the native benchmark in a virtual machine, on a software RDMA device (qemu, mmdebstrap)
	@bash validation/verbs_bench/vm/build-image $(VM)
	@bash validation/verbs_bench/vm/run $(VM) validation/verbs_bench/plans/quick.yaml $(VM)/results.json
	@$(BIN)/python tests/measurements.py $(VM)/results.json

wheel: .venv/.dev  ## sdist, and the wheel made from it, in dist/
	rm -rf dist
	@echo 'python -m build (its messages: .venv/build.log)'
	@$(BIN)/python -m build --no-isolation --outdir dist . >.venv/build.log 2>&1 || { cat .venv/build.log; exit 1; }

clean:  ## remove what tools and builds left behind
	rm -rf build dist validation/verbs_bench/build rpsim.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -path ./.venv -prune -o -name __pycache__ -type d -exec rm -rf {} +

distclean: clean  ## clean, and remove .venv
	rm -rf .venv

# Each stamp is younger than all that its installation depends on; that of [dev] includes the runtime.
.venv/.runtime: $(HOUSE) | .venv/bin/python
	$(PIP_INSTALL) --editable .
	@touch $@

.venv/.dev: $(HOUSE) | .venv/bin/python .venv/types/rpsim
	$(PIP_INSTALL) --editable '.[dev]'
	@touch .venv/.runtime $@

.venv/.docs: $(HOUSE) | .venv/bin/python
	$(PIP_INSTALL) --editable '.[docs]'
	@touch .venv/.runtime $@

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "rpsim needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) -V 2>&1 | tail -n 1)." \
	    "Name another: make $(MAKECMDGOALS) PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
	  echo "'$(PYTHON)' cannot make environments: its modules venv and ensurepip are missing" \
	    "(on Debian and Ubuntu they are in the package python3-venv)." >&2; exit 1; }
	$(PYTHON) -m venv .venv

# mypy finds a package by the name of its folder, and a checkout may be called anything.
.venv/types/rpsim: | .venv/bin/python
	@mkdir -p $(@D)
	@ln -s ../.. $@
