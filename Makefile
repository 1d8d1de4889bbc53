# Every target sets up what it needs, quietly and only if it is missing.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(CURDIR)/$(VENV)/bin
export PATH := $(BIN):$(PATH)
export PYTHONUNBUFFERED := 1
# Ansible's temporary files stay inside the checkout.
export ANSIBLE_HOME := $(CURDIR)/build/ansible

.PHONY: help demo test quick test-long lint types ansible-lint unit judged contracts contracts-all contracts-page recorded packaging browser lock lab lab-down survival sanity bench bench-full clean

# Tests start thousands of interpreters: none of them shall compile Muster again.
unexport PYTHONDONTWRITEBYTECODE

# Files of tests stay together: their fixtures are made once. Some tests wait: two workers a core keep it busy.
export PYTEST_XDIST_AUTO_NUM_WORKERS ?= $(shell echo $$(($$(nproc) * 2)))
PARALLEL := --numprocesses=auto --dist=loadfile --no-loadscope-reorder
CONTRACT_TOOLS := { command -v mmdebstrap && command -v gcc; } >/dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends mmdebstrap gcc libc6-dev >/dev/null; }
CONTRACTS := $(addprefix tests/contracts/test_,contracts.py gpus.py gpu_report.py slurm_gpus.py slurm_pairs.py \
	slurm_blocks.py site_slurm_output.py)
BENCH := PYTHONPATH=collections:. $(BIN)/python -m tests.bench
PARTS := PYTHONPATH=. $(BIN)/python -m tests.parts
# One version of each package for all Pythons where there can be one: the tested set.
LOCK = uv pip compile --quiet --upgrade --python-version 3.11 --fork-strategy fewest --generate-hashes --no-annotate \
	--custom-compile-command "make lock"
# Where there is a build of PyTorch without CUDA; what the lab installs where pip finds it.
TORCH_CPU ?=

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(VENV)/.ready: pyproject.toml locks/dev.txt
	@echo "Setting up Python packages in $(VENV)"
	@$(PYTHON) -c 'import sys; sys.exit("Muster needs Python 3.11 or later, found " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { apt-get update -qq && apt-get install -y -qq python3-venv >/dev/null; }
	@test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	@$(VENV)/bin/python -m pip install -qq --disable-pip-version-check --require-hashes -r locks/dev.txt
	@$(VENV)/bin/python -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

demo: $(VENV)/.ready ## Set up the lab, run the whole chain, print the verdicts
	@$(BIN)/python molecule/lab/demo.py

test: $(VENV)/.ready ## Run everything CI runs, within the budget of tests/budget.yml
	@$(PARTS) test

quick: $(VENV)/.ready ## Run linters, type checker and unit tests
	@$(PARTS) quick

test-long: $(VENV)/.ready ## Run what make test leaves out: scenarios whole, more VM scenarios, the browser
	@$(PARTS) test-long

lint: $(VENV)/.ready ## Check the style of Python and YAML
	ruff check .
	ruff format --check .
	yamllint --strict .

ansible-lint: $(VENV)/.ready ## Check roles and playbooks
	ansible-lint --offline -q

types: $(VENV)/.ready ## Check types
	mypy -p ansible_collections.muster.cluster.plugins

unit: $(VENV)/.ready ## Run the unit tests
	pytest $(PARALLEL) -m "not pytorch" tests/architecture tests/unit

judged: $(VENV)/.ready ## Judge recorded, mutated and healthy outputs again; run PyTorch, OpenSM and a GPU, if any
	pytest $(PARALLEL) -m pytorch tests/unit/module_utils
	pytest $(PARALLEL) tests/oracle tests/rules tests/recorded tests/fuzz tests/meaning tests/infiniband tests/imex tests/grace tests/gpu \
		tests/contracts/test_places.py tests/contracts/test_table.py

contracts: $(VENV)/.ready ## Give every command line of Muster to the real programs of Debian 12 and 13
	@$(CONTRACT_TOOLS)
	CONTRACT_SYSTEMS="bookworm trixie" pytest $(CONTRACTS)

contracts-all: $(VENV)/.ready ## The same with those of Ubuntu 22.04 and 24.04 too
	@$(CONTRACT_TOOLS)
	pytest $(CONTRACTS)

contracts-page: $(VENV)/.ready ## The same, and write down what was seen: docs/maintaining/real_tools.md
	@$(CONTRACT_TOOLS)
	PYTHONPATH=collections:. $(BIN)/python -m tests.contracts.page

recorded: $(VENV)/.ready ## Judge what real machines printed (RECORDED=DIR), beside the true verdicts
	@PYTHONPATH=collections:. $(BIN)/python -m tests.recorded $(RECORDED)

packaging: $(VENV)/.ready ## Prove that names resolve from checkout, wheel and tarball
	pytest tests/packaging

sanity: $(VENV)/.ready ## Run ansible-test sanity over the built collection
	$(BIN)/python tests/sanity/run.py

browser: $(VENV)/.ready ## Open the report in a real browser; pictures of it in build/browser
	@command -v chromium >/dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null 2>&1; } \
	|| playwright install chromium >/dev/null 2>&1 || echo "No browser can be installed here"
	pytest -rs tests/browser

lock: $(VENV)/.ready ## Lock the newest Python packages that pyproject.toml allows (TORCH_CPU=INDEX)
	@test -x $(BIN)/uv || $(BIN)/python -m pip install -qq --disable-pip-version-check uv
	$(LOCK) --universal pyproject.toml --group dev --output-file locks/dev.txt
	$(LOCK) --universal pyproject.toml --constraints locks/dev.txt --output-file locks/muster.txt
	$(LOCK) --universal --group lab --constraints locks/dev.txt --output-file locks/lab.txt
	$(LOCK) --python-platform x86_64-manylinux_2_28 --group lab --constraints locks/dev.txt \
		--find-links $(TORCH_CPU) --output-file locks/lab_cpu.txt

lab: $(VENV)/.ready ## Start the container lab, or apply changed faults to it
	@$(BIN)/python molecule/lab/lab.py up

lab-down: $(VENV)/.ready ## Remove every trace of the lab
	@$(BIN)/python molecule/lab/lab.py down

survival: $(VENV)/.ready ## Run the demo, then everything it must survive
	pytest --durations=0 tests/lab

bench: $(VENV)/.ready ## Measure what takes a quarter of an hour; prints and writes build/bench.json
	@$(BENCH)

bench-full: $(VENV)/.ready ## Measure what takes hours, all simulated fleets too; goes on where it was interrupted
	@$(BENCH) --full

clean: lab-down ## Remove the lab and everything built
	rm -rf build dist $(VENV)
