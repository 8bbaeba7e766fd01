# `make demo` and `make test` set up what they need; VENV names the environment.
VENV ?= .venv
PY := $(VENV)/bin/python

.PHONY: setup demo test test-core lint
setup: $(VENV)/.installed
$(VENV)/.installed: pyproject.toml constraints.txt
	python3 -m venv $(VENV)
	$(PY) -m pip install --quiet -c constraints.txt -e ".[train,serve,dev]"
	touch $@

demo: setup  # a real, if tiny, RecoverSAT from the shipped sample: a few minutes on two cores
	$(VENV)/bin/recoversat fit --src tests/data/tatoeba.en --tgt tests/data/tatoeba.de --out work/demo --segments 3 \
	  --set train.steps=500 --set train.batch_tokens=1024 --set model.d_model=96 --set model.encoder_layers=2 --set model.decoder_layers=2
	echo "He is here." | $(VENV)/bin/recoversat translate --model work/demo --show segments

test: setup
	sh tests/ensure_chromium.sh
	OMP_NUM_THREADS=1 $(PY) -m pytest -n 2 --dist loadfile

test-core: setup  # a fresh environment without extras, so without torch, translates with an exported model
	$(PY) tests/core_install.py

lint: setup
	$(PY) -m ruff check . && $(PY) -m ruff format --check . && $(PY) -m mypy
