# Every target sets up what it needs, quietly and only if it is missing.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(CURDIR)/$(VENV)/bin
export PATH := $(BIN):$(PATH)
export PYTHONUNBUFFERED := 1
# Root's ControlMaster sockets and Ansible's temporary files stay inside the checkout.
export ANSIBLE_HOME := $(CURDIR)/build/ansible

.PHONY: help demo test lint unit recorded packaging lab lab-down molecule survival bench clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(VENV)/.ready: pyproject.toml
	@echo "Setting up Python packages in $(VENV)"
	@$(PYTHON) -c 'import sys; sys.exit("Muster needs Python 3.11 or later, found " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { apt-get update -qq && apt-get install -y -qq python3-venv >/dev/null; }
	@test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	@mkdir -p build
	@$(VENV)/bin/python -c 'import tomllib; p = tomllib.load(open("pyproject.toml", "rb")); print("\n".join(p["project"]["dependencies"] + p["dependency-groups"]["dev"]))' > build/requirements.txt
	@$(VENV)/bin/python -m pip install -qq --disable-pip-version-check -r build/requirements.txt
	@touch $@

demo: $(VENV)/.ready ## Set up the lab, run the whole chain, print the verdicts
	@$(BIN)/python molecule/lab/demo.py

test: lint unit packaging survival molecule ## Run everything CI runs

lint: $(VENV)/.ready ## Check style and types
	ruff check .
	ruff format --check .
	mypy -p ansible_collections.muster.cluster.plugins
	yamllint --strict .
	ansible-lint --offline -q

unit: $(VENV)/.ready ## Run the unit tests, and those on a GPU where there is one
	pytest tests/unit tests/recorded tests/fuzz tests/gpu

recorded: $(VENV)/.ready ## Judge what real machines printed (RECORDED=DIR), beside the true verdicts
	@PYTHONPATH=collections:. $(BIN)/python -m tests.recorded $(RECORDED)

packaging: $(VENV)/.ready ## Prove that names resolve from checkout, wheel and tarball
	pytest tests/packaging

lab: $(VENV)/.ready ## Start the container lab, or apply changed faults to it
	@$(BIN)/python molecule/lab/lab.py up

lab-down: $(VENV)/.ready ## Remove every trace of the lab
	@$(BIN)/python molecule/lab/lab.py down

survival: $(VENV)/.ready ## Run the demo, then everything it must survive
	pytest tests/lab

molecule: $(VENV)/.ready ## Run the Molecule scenarios
	MOLECULE_GLOB='molecule/*/molecule.yml' molecule test

bench: $(VENV)/.ready ## Measure; prints and writes build/bench.json
	@$(BIN)/python molecule/lab/bench.py
	@PYTHONPATH=collections:. $(BIN)/python -m tests.recorded --bench build/bench.json | tail -n 1
	@PYTHONPATH=collections:. $(BIN)/python -m tests.fuzz

clean: lab-down ## Remove the lab and everything built
	rm -rf build dist $(VENV)
