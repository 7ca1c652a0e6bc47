# The two commands that matter: `make demo` and `make test`. Both install on first use.
PYTHON ?= python3
PIP_VERSION := 26.3
BIN := .venv/bin
INSTALLED := .venv/installed
TEXTWORLD := .venv/textworld

.PHONY: help install demo test test-trainers check docs clean

help:
	@echo "make install  create .venv with pinned packages (once; PYTHON=... chooses the interpreter, 3.11 or later)"
	@echo "make demo     train and evaluate on DangerousTaxi (configs/taxi/demo.toml), then write report.html"
	@echo "make test     run all tests"
	@echo "make test-trainers  the same for what needs TRL, verifiers or OpenEnv; installs them beside .venv's packages"
	@echo "make check    lint, format, types, floors"
	@echo "make docs     write the generated part of docs/reference/configuration.md"
	@echo "make clean    remove .venv and caches; runs/ stays"

install: $(INSTALLED)

# Not compiled: Python compiles a module when it is first imported, and most of what is installed never is. It must be
# allowed to keep that: a process that compiles torch again begins five seconds later, and tests begin many.
unexport PYTHONDONTWRITEBYTECODE
PIP := $(BIN)/python -m pip install --quiet --no-compile

PACKAGES := packages/reflect-rl packages/alfworld-native packages/reflect-report packages/reflect-served packages/reflect-locate packages/reflect-games packages/reflect-algorithms benchmarks

$(INSTALLED): pyproject.toml constraints.txt $(PACKAGES:=/pyproject.toml)
	@echo "installing into .venv, this takes minutes the first time"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) -c constraints.txt pip==$(PIP_VERSION) setuptools
	@# Built with the setuptools of .venv: an environment of its own for each package takes seconds to make.
	$(PIP) -c constraints.txt --no-build-isolation $(PACKAGES:%=-e ./%) --group dev
	@touch $@

# For tests only: they compare the native household engine with TextWorld. Without a compiler they are skipped.
$(TEXTWORLD): $(INSTALLED)
	@echo "building TextWorld for the tests, this takes minutes the first time"
	@$(PIP) -c constraints.txt --build-constraint constraints.txt -e "./packages/alfworld-native[textworld]" \
		|| echo "TextWorld could not be built (it needs g++, make and cmake): the tests that need it will be skipped"
	@touch $@

demo: install
	$(BIN)/reflect-rl run configs/taxi/demo.toml

# One thread per test process: the two processes are the parallelism. A file is tested by one of them, so that what its
# tests share is made once.
test: install $(TEXTWORLD)
	OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile

# After an ordinary installation; their libraries lie in .venv/trainers.
test-trainers: install
	scripts/test_trainers

check: install
	scripts/check

docs: install
	$(BIN)/python scripts/make_config_docs.py

clean:
	rm -rf .venv build dist packages/*/src/*.egg-info packages/*/build benchmarks/src/*.egg-info .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
