# Everything runs from .venv, which `make setup` builds. Choose another interpreter with
# `make setup PYTHON=/path/to/python3`.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
BENCH_STAMP := $(VENV)/.installed-bench
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq
PYTHON ?=

.PHONY: help setup adapters run test quick test-long test-elsewhere lint audit fuzz docs bench

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-15s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

setup: $(STAMP)  ## build .venv with the package, its extras and the development tools

$(STAMP): pyproject.toml
	@set -eu; \
	if $(BIN)/python -m pip --version >/dev/null 2>&1; then \
	    echo "setup: updating $(VENV)"; \
	else \
	    new_enough='import sys; sys.exit(sys.version_info < (3, 11))'; \
	    python=; \
	    for candidate in $(or $(PYTHON),python3 python3.14 python3.13 python3.12 python3.11); do \
	        if "$$candidate" -c "$$new_enough" >/dev/null 2>&1; then python=$$candidate; break; fi; \
	    done; \
	    if [ -z "$$python" ]; then \
	        echo "setup: Python 3.11 or newer is needed, but $(or $(PYTHON),python3) is" \
	            "$$($(or $(PYTHON),python3) --version 2>/dev/null || echo missing)." \
	            "Install one, or name one: make setup PYTHON=/path/to/python3" >&2; \
	        exit 1; \
	    fi; \
	    if ! "$$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then \
	        version=$$("$$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])'); \
	        echo "setup: $$python cannot make virtual environments because ensurepip is missing." \
	            "On Debian or Ubuntu install the package python$$version-venv (apt install python$$version-venv)" >&2; \
	        exit 1; \
	    fi; \
	    echo "setup: making $(VENV) with $$("$$python" --version)"; \
	    "$$python" -m venv --clear $(VENV); \
	fi
	@echo "setup: upgrading pip"
	@$(PIP) install --upgrade 'pip>=25.1'
	@echo "setup: installing unstale, its extras and the development tools: about 430 MB to download, unless pip has" \
	    "them in its cache, and 1.6 GB on disk; a minute or two"
	@$(BIN)/python .ci/install.py --editable '.[all]' --group dev
	@touch $@

adapters: setup  ## install what adapters are tested against (Scrapy, gRPC, dbt, Dagster, Airflow); a minute
	@$(BIN)/python .ci/adapters.py $(ADAPTERS)

run: setup  ## mirror a small site that changes by itself for a minute, with the dashboard
	@$(BIN)/unstale demo --for 60s

# A file is run by one process, so that what its tests share is made once. Bytecode is kept, whatever the
# environment says, since many tests start processes of their own.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -n auto --dist loadfile

test: setup  ## run the tests and the examples in the documentation
	@$(PYTEST)

# Of each layer the tests that see most and take least, without servers, browsers and kills.
QUICK := README.md src tests/test_links.py tests/test_python_reference.py tests/test_bad_input.py tests/golden \
    tests/precision/test_kernels.py tests/planning/test_optimality.py tests/planning/test_refusals.py \
    tests/estimation/learning tests/estimation/profiles tests/policy/test_budget_and_limits.py \
    tests/schedule/test_orders.py tests/schedule/test_windows.py tests/simulation/test_agreement.py tests/tables \
    tests/mirror/config tests/mirror/exchange tests/mirror/sources tests/mirror/store/test_contract.py \
    tests/mirror/store/test_copies.py tests/mirror/engine/test_clocks.py \
    tests/mirror/engine/test_same_as_simulated.py tests/mirror/reports/test_explain.py \
    tests/cli/test_mistakes.py tests/cli/plan/test_plan.py tests/cli/schedule tests/cli/profile \
    tests/cli/mirror/test_init_and_add.py tests/cli/mirror/test_reference.py \
    tests/dashboard/test_guard.py tests/dashboard/api/test_api.py tests/dashboard/pages/test_figures.py

quick: setup  ## run the tests that catch most breakage, in less than 90 seconds
	@$(PYTEST) -m 'not (long or postgres or browser or kills)' $(QUICK)

test-long: setup  ## run the slow proofs, and look for examples that break a law
	@$(PYTEST) -m 'long or hypothesis' --hypothesis-profile=long

test-elsewhere: setup  ## run the tests as on an older processor, without kernels, on busy cores
	@kernels=$$(mktemp -d); busy=; trap 'kill $$busy 2>/dev/null; rm -rf "$$kernels"' EXIT; \
	trap 'exit 130' INT; trap 'exit 143' TERM; \
	newer=$$($(BIN)/python -c "$$NEWER"); \
	for core in $$(seq $$(getconf _NPROCESSORS_ONLN)); do \
	    nice timeout 7200 sh -c 'while :; do :; done' & busy="$$busy $$!"; \
	done; \
	NUMBA_CACHE_DIR="$$kernels" NUMBA_CPU_NAME=generic NUMBA_CPU_FEATURES= NPY_DISABLE_CPU_FEATURES="$$newer" \
	GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4,-AVX512F $(PYTEST)

# The instructions of this processor that NumPy uses, and not every processor has.
define NEWER
from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__
print(*(name for name in __cpu_dispatch__ if __cpu_features__.get(name)))
endef
export NEWER

lint: setup  ## check style, formatting, types and the layers
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports

docs: setup  ## build the documentation as a site, in build/site
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "docs: the site is in build/site; to read and search it: $(BIN)/python -m http.server --directory build/site 8000"

AUDIT_STAMP := $(VENV)/.installed-audit
FUZZ_STAMP := $(VENV)/.installed-fuzz
SECONDS := 60

audit: $(AUDIT_STAMP)  ## look for known vulnerabilities, in the source and in what is installed
	@$(BIN)/python tests/audit.py

fuzz: $(FUZZ_STAMP)  ## fuzz all that reads what strangers wrote; SECONDS=60 for each target, TARGETS=all
	@$(BIN)/python -m tests.fuzz --seconds $(SECONDS) $(TARGETS)

$(AUDIT_STAMP): $(STAMP)
	@echo "audit: installing bandit and pip-audit"
	@$(PIP) install --group audit
	@touch $@

$(FUZZ_STAMP): $(STAMP)
	@echo "fuzz: installing atheris"
	@$(PIP) install --group fuzz
	@touch $@

bench: $(BENCH_STAMP)  ## run the benchmarks
	@$(BIN)/python -m benchmarks

$(BENCH_STAMP): $(STAMP)
	@echo "bench: installing what unstale is compared with"
	@if $(PIP) install --group bench; then touch $@; \
	else echo "bench: they cannot be installed, so their rows stay empty" >&2; fi
