# The only commands a person or a CI needs: each step of .ci/run is a target here. `make help` lists them.
#
#   PYTHON=python3.13     the interpreter that .venv is made with (3.11 to 3.13); without it, .venv's own, else python3
#   TORCH=auto|yes|no     whether `make test` adds torch for the trainer's tests; auto takes it where a CPU build is offered
#   PYTEST_ARGS=...       handed to pytest; BENCH_ARGS=... to the benchmarks
#   BASE=, TRAINER_BASE=, MNIST=, PLATFORMS=, PREFIX=, PUSH=yes   what `make image` builds from, and for whom: docs/images.md
#   CASES=... ARGS=...    of make conformance: other cases than the project's own, and flags (ARGS=--help lists them)

SHELL := /bin/sh
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= $(if $(wildcard $(BIN)/python),$(BIN)/python,python3)
TORCH ?= auto
PYTEST_ARGS ?=
CASES ?=
ARGS ?=
JOBS ?= auto

PYTHON_VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
READY := $(VENV)/.ready-$(PYTHON_VERSION)
TORCH_READY := $(VENV)/.torch-$(PYTHON_VERSION)-$(TORCH)
CONFORMANCE_READY := $(VENV)/.conformance-$(PYTHON_VERSION)

.PHONY: help venv image demo demo-cluster conformance conformance-fast picture test test-fast test-cluster test-images test-trainer test-lowest soak coverage gate oracle lint types imports bench docs manifests fmt lock clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "  %-16s %s\n", $$1, $$2 }'

venv: $(READY) ## make .venv with the tested versions of all that development needs

$(READY): pyproject.toml constraints.txt tools/setup.sh
	@sh tools/setup.sh "$(PYTHON)" "$(VENV)"
	@touch $@

$(TORCH_READY): $(READY) constraints-trainer.txt tools/torch.sh
	@sh tools/torch.sh "$(BIN)/python" "$(TORCH)"
	@touch $@

image: $(READY) ## the webhook's image and the trainer's, with a Docker engine (docs/images.md)
	$(BIN)/python -m tools.image $(if $(BASE),--base $(BASE)) $(if $(TRAINER_BASE),--trainer-base $(TRAINER_BASE)) \
	    $(if $(MNIST),--mnist $(MNIST)) $(if $(PREFIX),--prefix $(PREFIX)) $(if $(PLATFORMS),--platforms $(PLATFORMS)) $(if $(PUSH),--push)

$(CONFORMANCE_READY): $(READY) constraints-trainer.txt constraints-conformance.txt tools/torch.sh tools/conformance.sh
	@sh tools/conformance.sh "$(BIN)/python"
	@touch $@

demo: $(READY) $(TORCH_READY) ## a job that hangs, the server that repairs its pods, the same job as it trains (DEMO_FAST=1: shorter)
	$(BIN)/python -m demo

demo-cluster: $(READY) ## the same pods through a real kube-apiserver (KUBEBUILDER_ASSETS), with rankfix as its webhook
	$(BIN)/python -m demo.cluster

conformance: $(CONFORMANCE_READY) ## launch cases as people publish them, as real processes, without rankfix and with it
	$(BIN)/python -m conformance $(CASES) $(ARGS)

conformance-fast: $(CONFORMANCE_READY) ## the part of them that has each class and rule
	$(BIN)/python -m conformance --fast $(CASES) $(ARGS)

picture: $(READY) $(TORCH_READY) ## draw docs/demo.svg, the README's picture, from a run of the demo
	$(BIN)/python -m demo --svg docs/demo.svg

test: $(READY) $(TORCH_READY) ## all tests but those of the images and the soak
	$(BIN)/python -m pytest -n $(JOBS) -m "not image and not soak" $(PYTEST_ARGS)

test-fast: $(READY) ## the tests that take no more than a moment each, without torch
	$(BIN)/python -m pytest -n $(JOBS) -m "not slow and not e2e and not image and not trainer and not soak" $(PYTEST_ARGS)

test-trainer: $(READY) $(TORCH_READY) ## the trainer's tests
	$(BIN)/python -m pytest -n $(JOBS) $(PYTEST_ARGS) tests/trainer

test-lowest: $(READY) ## the tests without torch, on the oldest versions that pyproject.toml allows (in build/lowest)
	$(PYTHON) -m venv --clear build/lowest
	$(BIN)/python -m tools.lowest > build/lowest/requirements.txt
	build/lowest/bin/python -m pip install -qq --requirement build/lowest/requirements.txt --editable .
	build/lowest/bin/python -m pytest -n $(JOBS) -m "not image and not trainer and not soak" $(PYTEST_ARGS)

coverage: ## all tests, then the coverage gate
	$(MAKE) test PYTEST_ARGS="--cov --cov-report= $(PYTEST_ARGS)"
	$(MAKE) gate

gate: $(READY) ## judge the coverage of the last test run: every branch of the core, 90 % elsewhere
	$(BIN)/python -m tools.coverage_gate

oracle: $(READY) ## check the answers to a folder of recorded reviews: make oracle SHARED=DIR
	@test -n "$(SHARED)" || { echo "make oracle: say where the recordings are: make oracle SHARED=DIR" >&2; exit 2; }
	$(BIN)/python $(SHARED)/tools/oracle.py --fixtures $(SHARED)/fixtures --vectors $(SHARED)/design/vectors.yaml \
	    -- $(BIN)/rankfix mutate -o review

lint: $(READY) ## style and likely mistakes (ruff)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY) ## types (mypy, strict, tests too)
	$(BIN)/mypy

imports: $(READY) ## the layers of the architecture (import-linter)
	$(BIN)/lint-imports --no-logo

bench: $(READY) ## how fast the server is, beside no-ops and PEER='COMMAND {port} {certdir}' (SOAK=600: ten minutes; ROUNDS=3)
	$(BIN)/python -m bench $(if $(PEER),--peer '$(PEER)') $(if $(SOAK),--soak $(SOAK)) $(if $(ROUNDS),--rounds $(ROUNDS)) $(BENCH_ARGS)

docs: $(READY) ## write the generated pages of docs/
	$(BIN)/python -m tools.contract_page
	$(BIN)/python -m tools.explain_schema
	$(BIN)/python -m conformance.page
	$(BIN)/python -m bench.page

manifests: $(READY) ## write the generated files of deploy/
	$(BIN)/python -m tools.manifests

test-cluster: $(READY) ## the tests against a real API server (KUBEBUILDER_ASSETS)
	$(BIN)/python -m pytest -m e2e $(PYTEST_ARGS) tests/e2e

soak: $(READY) ## the chaos tests that take minutes: their figures are in docs/reliability.md
	$(BIN)/python -m pytest -m soak --log-cli-level=INFO $(PYTEST_ARGS) tests/webhook

test-images: $(READY) ## builds the images and runs them: server and job as containers (a Docker engine, or root and dockerd)
	sh tools/engine.sh $(BIN)/python -m pytest -m image $(PYTEST_ARGS) tests/images

fmt: $(READY) ## format the code and mend what ruff can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lock: ## write constraints*.txt anew: the newest versions that pyproject.toml allows (run with the oldest Python)
	sh tools/lock.sh "$(PYTHON)"

clean: ## remove .venv, caches and build products
	rm -rf $(VENV) build dist .coverage .coverage.* .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
