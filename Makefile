# Every command that a developer or CI runs. `make` alone lists them.

PYTHON ?= python3
FUZZ_SECONDS ?= 60
MINUTES ?= 3
SEED ?= 1

VENV := .venv
BIN := $(VENV)/bin
# maturin finds the environment by this variable, also when nobody activated it.
export VIRTUAL_ENV := $(CURDIR)/$(VENV)
# A rustup installation is found although the shell that runs make does not know it yet.
export PATH := $(PATH):$(HOME)/.cargo/bin

RUST_SOURCES := $(shell find crates -type f \( -name '*.rs' -o -name '*.toml' -o -name '*.lua' -o -name '*.proto' -o -name '*.json' \) 2>/dev/null) Cargo.toml $(wildcard Cargo.lock)
RUST_VERSION := $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
# The binding needs an interpreter to link its test program, and is tested from Python anyway.
# The known mistakes are compiled in, behind a switch that only their own tests touch: one build serves both.
RUST_TESTED := --workspace --exclude tidegate-python --all-features
# Properties begin at the same place each time, so that a change is judged by itself: SEED=7 PROPTEST_CASES=100000 searches elsewhere, and longer.
CARGO_TEST := PROPTEST_RNG_SEED=$(SEED) cargo test --quiet
MUTANTS := $(sort $(basename $(notdir $(wildcard crates/*/tests/*mutants.rs))))

SAY := @printf '\n==> %s\n'

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup build test test-rust test-python lint fmt serve bench docs fuzz mutants requirements clean

help: ## List the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | awk -F '\t' '{ printf "  make %-14s %s\n", $$1, $$2 }'

setup: $(VENV)/.built $(VENV)/.requirements ## Create .venv, build the extension in release mode, install the package

build: setup ## The same as setup: rebuilds only what changed

test: setup lint test-rust test-python ## Everything that CI checks: style, Rust tests, Python tests

test-rust: setup ## Run the tests of the Rust crates, and show that they kill every known mistake
	$(SAY) 'Rust tests'
	$(CARGO_TEST) $(RUST_TESTED)

mutants: setup ## Only show that the tests kill every known mistake (algorithms.md, section 1.10)
	$(SAY) 'Mutants'
	$(CARGO_TEST) $(RUST_TESTED) $(MUTANTS:%=--test %)

test-python: setup ## Run the Python tests
	$(SAY) 'A browser for the tests of the dashboard'
	@$(BIN)/python tests/chromium.py
	$(SAY) 'Python tests'
	$(BIN)/pytest

lint: setup ## Check formatting, lints, types, and that the stub tells the truth
	$(SAY) 'Rust: format and clippy'
	cargo fmt --check
	cargo clippy --quiet --workspace --all-targets --all-features -- -D warnings
	$(SAY) 'Rust: the fuzzers still compile'
	@# Nothing is linked, so there is no need for libFuzzer, which would ask for a C++ compiler.
	CUSTOM_LIBFUZZER_PATH=none/libfuzzer.a cargo check --quiet --manifest-path fuzz/Cargo.toml --target-dir target/fuzz
	$(SAY) 'Python: format and ruff'
	$(BIN)/ruff format --check --quiet
	$(BIN)/ruff check --quiet
	$(SAY) 'Python: types, of the package, of its tests and of user code'
	$(BIN)/mypy
	$(SAY) 'Stub against the compiled module'
	$(BIN)/python -m mypy.stubtest tidegate._native --allowlist .mypy-stubtest-allowlist

fmt: setup ## Format the code and apply safe fixes
	cargo fmt
	$(BIN)/ruff check --fix --quiet || true
	$(BIN)/ruff format --quiet

serve: $(VENV)/.built ## Serve the example rules from memory; prints addresses and a curl to try. SERVE="--workers 1" adds options
	@exec $(BIN)/tidegate serve --config examples/service/tidegate.yaml $(SERVE)

bench: $(VENV)/.bench ## Measure speed and size against other libraries
	$(BIN)/python benchmarks/run.py

.PHONY: soak
soak: $(VENV)/.bench ## Load a service for MINUTES (3) while rules, store and instances change
	$(BIN)/python benchmarks/soak.py --minutes $(MINUTES)

docs: setup ## Build the documentation into site/
	$(BIN)/mkdocs build --strict --quiet --site-dir site

fuzz: setup ## Fuzz everything that parses, each target for FUZZ_SECONDS (60)
	fuzz/run $(FUZZ_SECONDS)

requirements: $(VENV)/.requirements ## Pin the newest versions in requirements-*.txt
	$(SAY) 'Pinning requirements'
	@set -e; for name in dev bench; do \
	  $(BIN)/uv pip compile --upgrade --quiet --universal --python-version 3.11 --no-header --no-emit-index-url --no-annotate \
	    requirements-$$name.in --output-file requirements-$$name.txt; \
	done

clean: ## Remove everything that was built
	rm -rf $(VENV) target site dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find python tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +


# The steps of `setup`. Each leaves a stamp, so that the next run does only what changed.

$(VENV)/.created: | check-rust
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo 'error: Tidegate needs Python 3.11 or newer, and `$(PYTHON)` is: '"$$($(PYTHON) --version 2>&1)" >&2; \
	  echo 'hint: install a newer Python, or name one: make setup PYTHON=python3.12' >&2; exit 1; }
	$(SAY) 'Creating $(VENV)'
	@rm -rf $(VENV)
	@$(PYTHON) -m venv $(VENV)
	@touch $@

# What the package needs to be built and to run, so that `make serve` on a clean checkout waits for nothing else.
$(VENV)/.runtime: requirements-dev.txt | $(VENV)/.created
	$(SAY) 'Installing what the package needs'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint requirements-dev.txt \
	  maturin pyyaml rich typer watchfiles alembic fastapi jinja2 python-multipart sqlalchemy uvicorn
	@touch $@

$(VENV)/.requirements: requirements-dev.txt | $(VENV)/.runtime
	$(SAY) 'Installing the development tools'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements-dev.txt
	@touch $@

$(VENV)/.built: $(VENV)/.runtime $(RUST_SOURCES) pyproject.toml
	$(SAY) 'Building the extension (the first time takes a few minutes)'
	@PIP_QUIET=1 PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/maturin develop --release
	@touch $@

$(VENV)/.bench: requirements-bench.txt $(VENV)/.built $(VENV)/.requirements
	$(SAY) 'Installing the libraries to compare with'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements-bench.txt
	@touch $@

.PHONY: check-rust
check-rust:
	@command -v cargo >/dev/null || { \
	  echo 'error: the Rust toolchain is missing: `cargo` was not found' >&2; \
	  echo 'hint: install Rust $(RUST_VERSION) or newer with rustup (see https://rustup.rs), then run make again' >&2; exit 1; }
	@found=$$(rustc --version | cut -d ' ' -f 2); \
	test "$$(printf '%s\n' $(RUST_VERSION) "$$found" | sort -V | head -n 1)" = $(RUST_VERSION) || { \
	  echo "error: Tidegate needs Rust $(RUST_VERSION) or newer, and \`rustc\` is $$found" >&2; \
	  echo 'hint: run `rustup update stable`' >&2; exit 1; }
	@command -v cc >/dev/null || { \
	  echo 'error: no C compiler: `cc` was not found, and Rust needs it to link' >&2; \
	  echo 'hint: install gcc or clang (Debian, Ubuntu: build-essential; macOS: xcode-select --install)' >&2; exit 1; }
