# The whole developer interface. Every target sets up what it needs; nothing is installed by hand.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Node comes with the development tools: what a system has may be too old to build the page.
export PATH := $(CURDIR)/$(BIN):$(PATH)
NATIVE := $(wildcard native/*/*.h native/*/*.cpp native/*/*.c) CMakeLists.txt pyproject.toml native/pilotlight.pth

.PHONY: help setup check test demo bench fuzz soak clean docs screenshots

help: ## this list
	@grep -E '^[a-z]+:.*##' Makefile | sed 's/:.*## /\t/' | expand -t12

setup: $(VENV)/.built ## environment with everything that checks, tests and benches use

$(VENV)/.tools: requirements-dev.txt scripts/system-packages scripts/other-pythons ui/package-lock.json
	@sh scripts/system-packages
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@sh scripts/other-pythons $(CURDIR)/$(VENV)/pythons
	@echo "installing the development tools (a minute or two on a fresh machine)"
	@$(BIN)/pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@(cd ui && npm ci --silent --no-fund --no-audit) || \
		echo "not installed: the tools of ui/; what needs them is skipped"
	@touch $@

$(VENV)/.built: $(VENV)/.tools $(NATIVE)
	@echo "building pilotlight"
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps \
		--config-settings=cmake.define.PILOTLIGHT_STRICT=ON -e .
	@touch $@

check: setup ## formatting, lint, types, layers, generated files
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/clang-format --dry-run --Werror $$(git ls-files '*.h' '*.cpp' '*.c')
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python scripts/cli_reference.py --check
	$(BIN)/python scripts/api_types.py --check
	@sh scripts/page --check

test: setup ## all tests
	$(BIN)/python scripts/test.py

demo: setup ## record a real training job, and a simulated 8-GPU one, and show their reports
	@sh scripts/demo $(BIN)

bench: setup ## every benchmark, and a table of the bars
	$(BIN)/python bench/all.py

fuzz: setup ## segments and traces under coverage-guided fuzzers, ten minutes for each reader
	sh scripts/fuzz 600

soak: setup ## kill -9 of agent and collector around a real job, a hundred times (ten minutes)
	SOAK_KILLS=100 $(BIN)/python -m pytest tests/collector/test_killed.py -q

screenshots: setup ## pictures of every page into docs/screens
	$(BIN)/python scripts/screenshots.py

docs: setup ## write the generated pages again
	$(BIN)/python scripts/cli_reference.py
	$(BIN)/python scripts/api_types.py
	@sh scripts/page

clean: ## forget everything that was built
	rm -rf $(VENV) build
