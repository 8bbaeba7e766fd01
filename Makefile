# `make demo` and `make test` set up what they need; VENV and DEMO name the environments.
VENV ?= .venv
DEMO ?= .venv-demo
PY := $(VENV)/bin/python
# Without a C++ compiler ONNX Runtime takes the place of the engine in C++.
COMPILER := $(shell command -v $(CXX) || command -v c++ || command -v clang++)
NO_ENGINE := $(if $(COMPILER),,RECOVERSAT_NO_ENGINE=1)
BUILD_WITH := $(if $(COMPILER),CXX="$(COMPILER)",$(NO_ENGINE))

.PHONY: setup demo test test-core test-anywhere test-engine test-aarch64 sanitize wheel lint lines docs mutants fuzz reproduce
setup: $(VENV)/.installed
$(VENV)/.installed: pyproject.toml constraints.txt $(wildcard csrc/*.cpp csrc/*.h csrc/*.txt)
	python3 -m venv $(VENV)
	$(BUILD_WITH) $(PY) -m pip install --quiet --no-compile -c constraints.txt -C cmake.define.EMULATE_AMX=ON \
	  -e ".[train,serve,dev,docs]"
	-$(PY) -m compileall -qq -j 0 $(VENV)/lib  # as pip would, but on all cores; some packages hold what is no Python
	touch $@

demo: $(DEMO)/.installed  # without torch: the built-in model translates, and shows its segments
	@printf '%s\n' "Could you tell me where the station is?" "The children are playing in the garden because the weather is nice today." \
	  | $(DEMO)/bin/recoversat translate --from en --to de --segments 4 --show segments
	@printf '%s\n' "Wir leben seit zehn Jahren in dieser Stadt." "Sie hat letzte Woche ein neues Auto gekauft." \
	  | $(DEMO)/bin/recoversat translate --from de --to en --segments 4 --show segments
	@echo "Now your own: echo 'Good morning!' | $(DEMO)/bin/recoversat translate --from en --to de"

$(DEMO)/.installed: pyproject.toml constraints.txt
	python3 -m venv $(DEMO)
	$(BUILD_WITH) $(DEMO)/bin/python -m pip install --quiet -c constraints.txt -e ".$(if $(NO_ENGINE),[onnx])"
	touch $@

test: setup
	sh tests/ensure_chromium.sh
	OMP_NUM_THREADS=1 $(PY) -m pytest -n 2 --dist loadfile --no-loadscope-reorder

test-core: setup  # a fresh environment without extras, so without torch, translates with an exported model
	$(PY) tests/core_install.py

test-anywhere: setup  # what computes, under other instruction sets, numbers of threads and kernel kits
	$(PY) -m tests.anywhere

# The engine's tests in C++ need cmake and a compiler, no Python. QUICK=--quick runs those of the smallest model only.
QUICK ?=
build_engine_test = mkdir -p build && { cmake -S csrc -B build/$(1) -DENGINE_TESTS=ON -DEMULATE_AMX=ON $(2) && \
  cmake --build build/$(1) -j 2; } > build/$(1).log || { cat build/$(1).log; false; }

test-engine:
	@$(call build_engine_test,engine)
	build/engine/engine_test $(QUICK)

sanitize: sanitize-address sanitize-thread
sanitize-address:
	@$(call build_engine_test,address,-DSANITIZE=address$(comma)undefined)
	build/address/engine_test $(QUICK)
sanitize-thread:
	@$(call build_engine_test,thread,-DSANITIZE=thread)
	build/thread/engine_test $(QUICK)
comma := ,

# Wheels that need no compiler, in dist/: for Python 3.11 and for 3.12 and later, for ARM where the cross compiler is.
PYTHONS ?= python3.11 python3.12
ARCHITECTURES ?= $(shell uname -m) $(if $(shell command -v aarch64-linux-gnu-g++),aarch64)
wheel:
	for architecture in $(ARCHITECTURES); do sh packaging/wheels.sh dist $$architecture $(PYTHONS) || exit 1; done

test-aarch64:
	@$(call build_engine_test,engine)
	sh packaging/wheels.sh dist aarch64 python3.11
	sh packaging/test_aarch64.sh dist build/engine/engine_test python3.11

lint: setup
	$(PY) -m ruff check . && $(PY) -m ruff format --check . && $(PY) -m mypy

lines:  # of the program, by room
	@git ls-files 'src/recoversat/*.py' | xargs wc -l | awk \
	  '!/total$$/ { split($$2, at, "/"); n[at[4] ? at[3] : "root"] += $$1 } END { for (r in n) print n[r], r | "sort -rn" }'

docs: setup  # the documentation as a site in site/; open site/index.html
	$(PY) -m recoversat settings > docs/settings.md
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --quiet

mutants: setup  # small faults, one at a time: does a test notice each?
	$(PY) tests/mutants.py

# Text handling and the built-in model on nasty input: make fuzz TEXTS=1000000 SENTENCES=10000 PROGRESS=work/fuzz.json
# With PROGRESS a campaign that was interrupted goes on where it was.
TEXTS ?= 20000
SENTENCES ?= 200
fuzz: setup
	OMP_NUM_THREADS=1 $(PY) tests/fuzz.py --texts $(TEXTS) --sentences $(SENTENCES) $(if $(PROGRESS),--progress $(PROGRESS))

# The tables from raw text, on a machine with a GPU: make reproduce DATA=../shared/data OUT=work/reproduce
DATA ?= ../shared/data
OUT ?= work/reproduce
reproduce: setup
	RECOVERSAT=$(abspath $(VENV)/bin/recoversat) recipes/multi30k.sh $(DATA)/multi30k $(OUT)/multi30k
	RECOVERSAT=$(abspath $(VENV)/bin/recoversat) PYTHON=$(abspath $(PY)) recipes/ende200k.sh $(DATA) $(OUT)/ende200k
