# Every target sets up what it needs: the environment lives in .venv/ and is re-used while it is up to date.
# Bytecode is written: importing torch_geometric takes 2.4 s with it and 6.2 s without, in every process of the tests.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.ready

.PHONY: setup demo test quick fuzz check size bench report docs pictures notebooks test-oldest dist clean
.DEFAULT_GOAL := test

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --no-compile --disable-pip-version-check -c constraints.txt "torch==$$(sed -n 's/^torch==//p' constraints.txt)"
	$(BIN)/pip install --quiet --no-compile --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $(STAMP)

setup: $(STAMP)            ## create the environment

demo: $(STAMP)             ## four questions to a GCN with and without RADE: table, sentences, picture
	$(BIN)/rade demo

check: $(STAMP)            ## lint and types only
	$(BIN)/ruff check .
	$(BIN)/mypy

# What a change breaks first.
QUICK := tests/core tests/rates tests/test_imports.py tests/test_golden.py

quick: check               ## lint, types, and a selection of tests in a minute or two
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal -m "not slow" $(QUICK)

test: check                ## everything that CI runs
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal

fuzz: $(STAMP)             ## random configurations, command lines and laws of the core, for minutes
	RADE_FUZZ=$${RADE_FUZZ:-300} $(BIN)/pytest -n 2 tests/fuzz tests/core/test_properties.py

CORE := $(addprefix src/rade/,graph moments nn rates wrapper testing __init__.py correction.py distribution.py errors.py noise.py runtime.py sums.py views.py)

size:                      ## modules and lines without blank ones: package, core; lines of tests
	@count() { echo "$$1: $$(find $$2 -name '*.py' | wc -l) modules, $$(find $$2 -name '*.py' | xargs cat | grep -cv '^\s*$$') lines"; }; \
	count package src/rade; count core "$(CORE)"; echo "tests: $$(find tests -name '*.py' | xargs cat | wc -l) lines"

bench: $(STAMP)            ## speed as ratios, on an otherwise idle machine
	$(BIN)/python -m benchmarks.speed

report: $(STAMP)           ## from results/: its tables, those of docs/results.md and docs/noisy.md, the forest plot, rate rules
	$(BIN)/rade report results --out report
	$(BIN)/python docs/refresh.py report
	cd docs/pictures && ../../$(BIN)/python results.py
	$(BIN)/python -m benchmarks.rate_rules
	$(BIN)/python -m benchmarks.draw_noisy

# The documentation has packages of its own, added to the same environment.
$(VENV)/.docs: $(STAMP)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[docs]"
	touch $@

docs: $(VENV)/.docs        ## the documentation as pages: docs/_build/html/index.html
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html
	$(BIN)/python docs/check_links.py docs/_build/html

pictures: $(STAMP)         ## draw the pictures of the documentation again
	for script in demo diagnose jacobian labels moments noise rates results speed views; do (cd docs/pictures && ../../$(BIN)/python $$script.py) || exit 1; done

notebooks: $(VENV)/.docs   ## write the notebook from its script and execute it
	$(BIN)/python docs/write_notebooks.py

dist: $(VENV)/.docs        ## wheel and source archive
	rm -rf dist && $(BIN)/python -m build --no-isolation --quiet

# The lowest versions that pyproject.toml promises (constraints-oldest.txt), on the lowest Python, in an environment of
# their own. PyPI's wheel of PyTorch 2.4 brings CUDA: 5 GB on disk, which run on a machine without a GPU all the same.
# OLDEST_INDEX="--extra-index-url https://download.pytorch.org/whl/cpu" takes the build without it.
OLDEST_PYTHON ?= python3.10
OLDEST_INDEX  ?=
OLDEST_VENV   ?= .venv-oldest
OLDEST_TESTS  ?= tests src

$(OLDEST_VENV)/.ready: pyproject.toml constraints-oldest.txt
	$(OLDEST_PYTHON) -m venv $(OLDEST_VENV)
	$(OLDEST_VENV)/bin/pip install --quiet --disable-pip-version-check -c constraints-oldest.txt $(OLDEST_INDEX) \
		-e ".[ogb,lightning,tune]" pytest pytest-xdist hypothesis nbformat nbclient ipykernel "setuptools>=77" wheel
	touch $@

test-oldest: $(OLDEST_VENV)/.ready  ## the tests, all but the slow ones, with the lowest promised versions
	OMP_NUM_THREADS=1 $(OLDEST_VENV)/bin/python -m pytest -n 2 --dist worksteal -m "not slow" $(OLDEST_TESTS)

clean:
	rm -rf $(VENV) $(OLDEST_VENV) .mypy_cache .ruff_cache build dist docs/_build report
