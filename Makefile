# Two commands on a fresh machine with Python 3.11+, Rust and a C compiler:
#   make demo   compare two targets of this machine and write a brief
#   make test   every test, formatter and linter
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= $(shell .ci/find-python)
RUST_SOURCES := Cargo.toml Cargo.lock $(shell find crates -name '*.rs' -o -name Cargo.toml)
# The Python bindings are an extension module: they link no libpython, so they have no test binary.
CARGO_TEST := cargo test --locked --workspace --exclude storlab-py
MATURIN := env -u CONDA_PREFIX PIP_QUIET=1 VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/maturin
DEMO_OUT = .demo/$(shell date -u +%Y%m%dt%H%M%Sz)
# The release build is for this machine's processor, which takes a few percent off the CPU time of
# preprocessing: where the Parquet library makes dictionaries, whose hash wants AES instructions and is
# chosen when it is compiled. Our own code gains too little to choose at run time. For machines of several
# kinds name a processor that all have, such as x86-64-v2, which is what a wheel is for.
TARGET_CPU ?= native
export PYO3_PYTHON := $(CURDIR)/$(BIN)/python
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help setup build develop wheel demo test test-rust test-python lint fmt docs bench bench-fixed bench-object bench-preprocess bench-scale bench-startup lock clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

setup: $(VENV)/.deps  ## virtual environment with the pinned dependencies

$(VENV)/.made:
	@test -n "$(PYTHON)" || { .ci/find-python --explain; exit 1; }
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/.deps: $(VENV)/.made requirements.lock
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements.lock
	touch $@

build: $(VENV)/.built  ## release build of the native engine, installed in place

develop: $(VENV)/.developed  ## build for tests, in the profile of cargo test: slow to run, quick to make

# Both lie in the same place, so that either build ends the other.
$(VENV)/.built $(VENV)/.developed: $(VENV)/.deps pyproject.toml $(RUST_SOURCES)
	rm -f python/storlab/_native*.so  # a new file: programs that run with the old one keep it
	rm -f $(VENV)/.built $(VENV)/.developed
	$(BUILD_FLAGS) $(MATURIN) develop --locked --quiet $(BUILD_PROFILE)
	touch $@

$(VENV)/.built: BUILD_PROFILE = --release
$(VENV)/.built: BUILD_FLAGS = RUSTFLAGS="$(RUSTFLAGS) -C target-cpu=$(TARGET_CPU)"

wheel: $(VENV)/.deps  ## a wheel in dist/ for machines of several kinds (TARGET_CPU=x86-64-v2)
	RUSTFLAGS="$(RUSTFLAGS) -C target-cpu=$(TARGET_CPU)" $(MATURIN) build --release --locked --out dist

wheel: TARGET_CPU = x86-64-v2

# Types of the native engine, for mypy.
python/storlab/_native.pyi: $(VENV)/.deps pyproject.toml $(RUST_SOURCES)
	$(MATURIN) generate-stubs --profile dev --quiet --out target/stubs
	cp target/stubs/storlab/_native.pyi $@

demo: build  ## five short studies, one of each kind of work; prints where their briefs lie
	$(BIN)/storlab run studies/demo.toml --clean --out $(DEMO_OUT)
	$(BIN)/storlab run studies/demo-object.toml --clean --out $(DEMO_OUT)-object
	$(BIN)/storlab run studies/demo-training.toml --clean --out $(DEMO_OUT)-training
	$(BIN)/storlab run studies/demo-checkpoint.toml --clean --out $(DEMO_OUT)-checkpoint
	$(BIN)/storlab run studies/demo-preprocess.toml --clean --out $(DEMO_OUT)-preprocess

test: develop  ## everything: cargo test, pytest, formatters, linters, types
	@$(MAKE) --no-print-directory test-rust
	@$(MAKE) --no-print-directory test-python
	@$(MAKE) --no-print-directory lint

test-rust: $(VENV)/.deps  ## cargo test
	$(CARGO_TEST)

test-python: develop  ## pytest (PYTEST_ARGS="-k name" narrows it)
	$(BIN)/python -m pytest $(PYTEST_ARGS)

lint: $(VENV)/.deps python/storlab/_native.pyi  ## formatters and linters, nothing changed
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets --features pyo3/extension-module -- -D warnings

fmt: $(VENV)/.deps  ## format Python and Rust
	$(BIN)/ruff check --fix --quiet || true
	$(BIN)/ruff format
	cargo fmt --all

docs: develop  ## write docs/reference anew
	$(BIN)/python docs/generate.py

bench: build  ## speed beside fio, t/io_uring and elbencho (BENCH_ARGS="--help" explains)
	$(BIN)/python benches/block.py $(BENCH_ARGS)

bench-fixed: build  ## speed of training reads and checkpoints beside fio (BENCH_ARGS)
	$(BIN)/python benches/fixed.py $(BENCH_ARGS)

bench-object: build  ## speed beside warp and bare loops, against versitygw (BENCH_ARGS)
	$(BIN)/python benches/object.py $(BENCH_ARGS)

bench-scale: build  ## seconds and memory of compare, audit, report and status at 10,000 runs (BENCH_ARGS)
	$(BIN)/python benches/scale.py $(BENCH_ARGS)

bench-preprocess: build  ## speed of preprocessing beside pandas, Polars and DuckDB (BENCH_ARGS)
	$(BIN)/python benches/preprocess.py $(BENCH_ARGS)

bench-startup: develop  ## CPU time of starting the command, beside importing Typer (BENCH_ARGS)
	$(BIN)/python benches/startup.py $(BENCH_ARGS)

lock: $(VENV)/.made  ## resolve the dependencies anew (needs uv)
	uv pip compile --quiet --upgrade --universal --python-version 3.11 --group tools \
	  --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --no-annotate \
	  pyproject.toml --output-file requirements.lock

clean:  ## remove what was built; results/ stays
	rm -rf $(VENV) target dist .demo .mypy_cache .ruff_cache .pytest_cache .hypothesis
	rm -f python/storlab/_native*.so
	find python tests benches -name __pycache__ -type d -prune -exec rm -rf {} +
