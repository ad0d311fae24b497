# Every target sets up what it needs: the environment lives in .venv/ and is re-used while it is up to date.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.ready

.PHONY: setup demo test quick fuzz check bench clean
.DEFAULT_GOAL := test

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt "torch==$$(sed -n 's/^torch==//p' constraints.txt)"
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $(STAMP)

setup: $(STAMP)            ## create the environment

demo: $(STAMP)             ## five methods on random graphs, clean and damaged: table, verdict, picture
	$(BIN)/rade demo

check: $(STAMP)            ## lint and types only
	$(BIN)/ruff check .
	$(BIN)/mypy

# One file for every idea, those that take long left out.
QUICK := $(addprefix tests/,test_imports.py test_docs.py test_values.py test_arguments.py test_bad_input.py test_convert.py \
	test_explain.py test_graph.py test_inference.py test_memory.py test_model_memory.py test_no_silent_failures.py test_own_rule.py test_pairs.py \
	test_sparse.py test_view.py train/test_settings.py train/test_metrics.py augment/test_backbones.py data/test_data_names.py)

quick: check               ## lint, types, and a selection of tests in a minute or two
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal -m "not slow" $(QUICK)

test: check                ## everything that CI runs
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal

fuzz: $(STAMP)             ## random configurations, command lines and damaged files, for minutes
	RADE_FUZZ=$${RADE_FUZZ:-300} $(BIN)/pytest -n 2 tests/fuzz

bench: $(STAMP)            ## speed as ratios, on an otherwise idle machine
	$(BIN)/rade bench

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache build dist
