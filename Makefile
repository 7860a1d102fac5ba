# A few words to remember, the same here and in CI. Each makes .venv itself.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
PY := .venv/bin/python
PYTEST := $(PY) -m pytest

.PHONY: help venv demo test test-fast test-full check format bench lock clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

venv: ## make .venv from requirements.lock (the others call this)
	@scripts/make_venv.sh

demo: venv ## the main job on this machine, on real input
	@.venv/bin/lancegpu demo

test: venv ## every suite
	@$(PYTEST)

test-fast: venv ## the quick suites, under a minute
	@$(PYTEST) tests/unit

test-full: venv ## every suite with long random runs
	@TEST_LENGTH=full $(PYTEST)

check: venv ## formatting, lint, types, the order of the rooms
	@$(PY) -m ruff format --check .
	@$(PY) -m ruff check .
	@$(PY) -m mypy
	@.venv/bin/lint-imports

format: venv ## write the formatting and what lint can fix
	@$(PY) -m ruff format .
	@$(PY) -m ruff check --fix .

bench: venv ## what things cost, beside the bars they must keep
	@$(PY) benchmarks/run.py

lock: venv ## resolve requirements.lock anew, keeping what still fits
	@.venv/bin/uv pip compile --quiet --universal --generate-hashes --no-header --group dev pyproject.toml -o requirements.lock >/dev/null

clean: ## remove .venv and every cache
	@rm -rf .venv .venv.lock .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
