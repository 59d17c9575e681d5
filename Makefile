# Every target works from nothing: it makes its own virtual environment in .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -q
NATIVE_SOURCES := CMakeLists.txt scripts/kernels.py $(shell find native -name '*.[ch]pp' -o -name '*.cu' -o -name CMakeLists.txt -o -name '*.cmake' -o -name '*.inc' 2>/dev/null)
JOBS ?= $(shell nproc 2>/dev/null || echo 2)

.PHONY: demo test test-all soak lint native fuzz bench docs site wheel kernels stubs format torch frameworks ray clean help FORCE
help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

demo: $(VENV)/package ## make pictures, pack, verify and read them back: the main job, from nothing
	@echo "== running the demo"
	@$(BIN)/headrace demo

test: $(VENV)/package $(VENV)/test ## the quick tests of the Python package
	bash scripts/tests.sh -n $(JOBS) --dist worksteal -m "not slow and not frameworks and not ray" $(ARGS)

# JAX and TensorFlow have threads that do not survive a fork, and Ray forks: processes of their own, and one for Ray. 5 says
# that there were no tests.
FRAMEWORKS := -n $(JOBS) --dist loadfile -m frameworks
RAY := -m ray
test-all: $(VENV)/package $(VENV)/test ## all tests of the Python package, and the documentation
	bash scripts/tests.sh $(FRAMEWORKS) tests/unit/frameworks tests/docs/test_docs.py $(ARGS) || [ $$? = 5 ]
	bash scripts/tests.sh $(RAY) tests/unit/frameworks tests/integration tests/remote tests/docs/test_docs.py $(ARGS) || [ $$? = 5 ]
	bash scripts/tests.sh -n $(JOBS) --dist worksteal -m "not frameworks and not ray" $(ARGS)

soak: $(VENV)/package $(VENV)/test ## a fault at every call of every writing command, full disks, readers beside a writer: an hour or more
	bash scripts/soak.sh $(JOBS) $(ARGS)

lint: $(VENV)/package $(VENV)/test $(VENV)/lint ## linters, formatters, type check, stubs up to date
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror $$(find native -name '*.[ch]pp')
	$(BIN)/mypy
	$(BIN)/python scripts/stubs.py --check

native: $(VENV)/package $(VENV)/test ## C++ tests: plain, under ASan+UBSan and under TSan; fuzzers; the package under ASan
	bash scripts/native-tests.sh $(JOBS)

fuzz: $(VENV)/package $(VENV)/test ## coverage-guided fuzzing of every parser: SECONDS each (60), what is kept goes to build/fuzzing
	bash scripts/fuzz.sh $(or $(SECONDS),60) build/fuzzing $(ARGS)

# Photographs are those of a folder that IMAGES names, or made-up ones. ARGS: suites and options of headrace bench.
bench: $(VENV)/package $(VENV)/test ## measure all suites (or ARGS="crops reads"), write benchmarks/results, refresh the README's numbers
	$(BIN)/headrace bench $(or $(ARGS),all) --out benchmarks/results $(if $(IMAGES),--images $(IMAGES))
	$(BIN)/python -m benchmarks

docs: $(VENV)/package $(VENV)/test ## run every code block of the documentation, check links and completeness
	bash scripts/tests.sh $(FRAMEWORKS) tests/docs/test_docs.py $(ARGS) || [ $$? = 5 ]
	bash scripts/tests.sh $(RAY) tests/docs/test_docs.py $(ARGS) || [ $$? = 5 ]
	bash scripts/tests.sh -n $(JOBS) --dist worksteal -m "not frameworks and not ray" tests/docs $(ARGS)

# Not quietly: with -q MkDocs does not count warnings, and so none is an error.
site: $(VENV)/site ## the documentation as a site in build/site, with the reference made from docstrings; warnings are errors
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict $(ARGS)
	@echo "open build/site/index.html"

wheel: $(VENV)/package $(VENV)/test $(VENV)/wheel ## a wheel in dist/ that needs no compiler, tried in an empty environment
	bash scripts/wheel.sh -n $(JOBS) $(ARGS)

kernels: $(VENV)/package ## compile the GPU kernels into the editable install, with an nvcc from PyPI where there is none
	@bash -c '. scripts/nvcc.sh' || { echo "no nvcc was found, and none could be installed from PyPI" >&2; exit 1; }
	@HEADRACE_GPU=ON bash scripts/install.sh

stubs: $(VENV)/package ## write src/headrace/_native/_core.pyi anew from the extension
	$(BIN)/python scripts/stubs.py

format: $(VENV)/lint ## format the sources
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $$(find native -name '*.[ch]pp')

clean: ## remove everything that was built
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV)/bin/python: | scripts/system-packages.sh
	@echo "== looking for the compiler and libjpeg"
	@bash scripts/system-packages.sh $(PYTHON)
	@echo "== making a virtual environment in $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install -U 'pip>=25.1'

$(VENV)/build-tools: $(VENV)/bin/python pyproject.toml
	@echo "== installing numpy, pillow and what builds the package"
	@$(PIP) install --group build numpy pillow
	@touch $@

# Editable: Python changes count at once, C++ changes and Python files that come or go when make runs again.
$(VENV)/package: $(VENV)/build-tools $(VENV)/modules $(NATIVE_SOURCES)
	@echo "== building the C++ part on $(JOBS) cores"
	@bash scripts/install.sh
	@touch $@

# Changes only when the list does: an editable install knows the files that were there.
$(VENV)/modules: FORCE | $(VENV)/bin/python
	@find src -name '*.py' | sort | cmp -s - $@ || find src -name '*.py' | sort >$@

$(VENV)/test: $(VENV)/bin/python pyproject.toml
	@echo "== installing what the tests need"
	@$(PIP) install --group test
	@touch $@

torch: $(VENV)/torch ## also install torch, for the tests that need it (skipped without)

$(VENV)/torch: $(VENV)/bin/python pyproject.toml
	$(PIP) install --group torch
	@touch $@

frameworks: $(VENV)/frameworks ## also install JAX and TensorFlow, for the tests that need them (skipped without)

$(VENV)/frameworks: $(VENV)/bin/python pyproject.toml
	$(PIP) install --group frameworks
	@touch $@

ray: $(VENV)/ray ## also install Ray, for the tests that need it (skipped without)

$(VENV)/ray: $(VENV)/bin/python pyproject.toml
	$(PIP) install --group ray
	@touch $@

$(VENV)/lint: $(VENV)/bin/python pyproject.toml
	$(PIP) install --group lint
	@touch $@

$(VENV)/wheel: $(VENV)/bin/python pyproject.toml
	@echo "== installing what makes wheels"
	@$(PIP) install --group wheel
	@touch $@

$(VENV)/site: $(VENV)/bin/python pyproject.toml
	@echo "== installing what makes the site"
	@$(PIP) install --group site
	@touch $@
