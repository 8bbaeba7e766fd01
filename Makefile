# One line each; `make test` is what CI runs. VENV names the environment that every target sets up for itself.
VENV ?= .venv
PY := $(VENV)/bin/python

.PHONY: setup test lint
setup: $(VENV)/.installed
$(VENV)/.installed: pyproject.toml constraints.txt
	python3 -m venv $(VENV)
	$(PY) -m pip install --quiet -c constraints.txt -e ".[train,serve,dev]"
	touch $@

test: setup
	$(PY) -m pytest

lint: setup
	$(PY) -m ruff check . && $(PY) -m ruff format --check . && $(PY) -m mypy
