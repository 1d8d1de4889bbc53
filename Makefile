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

.PHONY: help demo test test-lab test-rest test-vm lint unit recorded packaging browser lab lab-down molecule survival bench bench-full clean

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

# Those with container hosts, one after the other on one network.
HOSTS := default burn_in gpu_stack

test: $(VENV)/.ready ## Run everything CI runs, what needs the container lab beside what does not
	@mkdir -p build
	@{ $(MAKE) --no-print-directory --jobs=2 --output-sync=line test-lab test-rest && $(MAKE) --no-print-directory test-vm; } 2>&1 | tee build/test.log \
	|| { echo "What failed, from build/test.log:"; grep -aE '(FAILED|ERROR|\bE) .*[[:alnum:]]|Error [0-9]+$$' build/test.log | tail -n 60; exit 1; }

test-lab: survival
	for scenario in $(HOSTS); do molecule test -s "$$scenario"; done

test-rest: lint unit packaging
	molecule test -s infiniband

# Alone: kernel machines that are emulated starve beside other work, and the bandwidth of their rails with them.
test-vm: $(VENV)/.ready
	molecule test -s fabric_vm

lint: $(VENV)/.ready ## Check style and types
	ruff check .
	ruff format --check .
	mypy -p ansible_collections.muster.cluster.plugins
	yamllint --strict .
	ansible-lint --offline -q

unit: $(VENV)/.ready ## Run the unit tests, and those on a GPU where there is one
	pytest tests/unit tests/recorded tests/fuzz tests/infiniband tests/gpu

recorded: $(VENV)/.ready ## Judge what real machines printed (RECORDED=DIR), beside the true verdicts
	@PYTHONPATH=collections:. $(BIN)/python -m tests.recorded $(RECORDED)

packaging: $(VENV)/.ready ## Prove that names resolve from checkout, wheel and tarball
	pytest tests/packaging

browser: $(VENV)/.ready ## Open the report in a real browser; pictures of it in build/browser
	@command -v chromium >/dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null 2>&1; } \
	|| playwright install chromium >/dev/null 2>&1 || echo "No browser can be installed here"
	pytest -rs tests/browser

lab: $(VENV)/.ready ## Start the container lab, or apply changed faults to it
	@$(BIN)/python molecule/lab/lab.py up

lab-down: $(VENV)/.ready ## Remove every trace of the lab
	@$(BIN)/python molecule/lab/lab.py down

survival: $(VENV)/.ready ## Run the demo, then everything it must survive
	pytest tests/lab

molecule: $(VENV)/.ready ## Run all Molecule scenarios, those too that take too long for every change (slurm, storage)
	MOLECULE_GLOB='molecule/*/molecule.yml' molecule test

bench: $(VENV)/.ready ## Measure; prints and writes build/bench.json
	@$(BIN)/python molecule/lab/bench.py
	@$(BIN)/python molecule/lab/bench_fabric.py
	@$(BIN)/python molecule/lab/bench_slurm.py
	@$(BIN)/python molecule/lab/bench_storage.py
	@PYTHONPATH=collections:. $(BIN)/python -m tests.recorded --bench build/bench.json | tail -n 1
	@PYTHONPATH=collections:. $(BIN)/python -m tests.fuzz
	@PYTHONPATH=collections:. $(BIN)/python -m tests.isolation.scale --bench build/bench.json
	@PYTHONPATH=collections:. $(BIN)/python -m tests.isolation --hosts 8,32,232 --noise 0.01 --seconds 60 --planning

bench-full: $(VENV)/.ready ## Play all simulated fleets (days on one core); writes build/isolation.json
	@PYTHONPATH=collections:. $(BIN)/python -m tests.isolation --jobs 0 --power --planning

clean: lab-down ## Remove the lab and everything built
	rm -rf build dist $(VENV)
