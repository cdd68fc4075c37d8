# Every target makes what it needs: on a fresh machine `make demo` or `make test` is all there is to type.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/installed
ONE_THREAD := OMP_NUM_THREADS=1
# Compiled modules are kept, whatever the environment says: to compile the tests again takes each process five seconds.
PYTEST := $(ONE_THREAD) PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n auto --dist worksteal

.PHONY: install demo lessons docs test test-medium test-lessons test-most test-all chaos check format bench wheel wheel-test clean

install: $(INSTALLED)

# torch comes first and by its pinned version: a looser request may bring gigabytes for a GPU that is not there.
$(INSTALLED): pyproject.toml constraints.txt $(shell find src -name "*.[ch]")
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt "$$(grep '^torch==' constraints.txt)"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[train,subwords,parquet,ctranslate2,server]'
	@touch $@

# What only developers need comes on top.
$(VENV)/installed-dev: $(INSTALLED) requirements-dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[all]' -r requirements-dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --no-deps openapi-python-client  # its typer is older, and not used
	@touch $@

demo: install
	$(BIN)/glassformer demo

# The course in the browser. Its notebooks are made by lessons/build.py from the pages in lessons/source.
lessons: $(VENV)/installed-lessons
	$(BIN)/jupyter lab lessons

$(VENV)/installed-lessons: $(INSTALLED) requirements-lessons.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -r requirements-lessons.txt
	@touch $@

# The documentation as a site, with search: build/site/index.html opens from the folder. Warnings and broken links are errors.
docs: $(VENV)/installed-docs
	OMP_NUM_THREADS=1 $(BIN)/python docs/site/build.py

$(VENV)/installed-docs: $(INSTALLED) requirements-docs.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -r requirements-docs.txt
	@touch $@

# One thread a process: with more, processes that share two cores spend their time waiting for each other.
# Neighboring tests share fixtures, so that each process takes a half, and more from the other when it is done.
test: $(VENV)/installed-dev
	$(PYTEST) -m "not slow and not medium and not gpu"

# Those that take 2 to 15 seconds each: six minutes.
test-medium: $(VENV)/installed-dev
	$(PYTEST) -m "medium and not slow"

# All notebooks of the course from top to bottom, trainings included: three minutes of processor time.
test-lessons: $(VENV)/installed-dev
	$(PYTEST) -m lesson tests/test_lessons.py

# These three in one run, whose processes import everything and train what tests share once.
test-most: $(VENV)/installed-dev
	$(PYTEST) -m "not gpu and (not slow or lesson)"

test-all: $(VENV)/installed-dev
	$(BIN)/python -m pytest --hypothesis-profile=thorough

# Runs that are killed, terminated and hit by faults at every write, and thousands of damaged files (an hour).
chaos: $(VENV)/installed-dev
	$(ONE_THREAD) $(BIN)/python -m pytest --hypothesis-profile=thorough tests/chaos tests/storage/importers/test_mutated_folders.py

check: $(VENV)/installed-dev
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_architecture.py

format: $(VENV)/installed-dev
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

# Training next to the peers, in turns: the table of docs/results.md. `python -m benchmarks NAME` has the others.
bench: $(VENV)/installed-dev
	$(BIN)/python -m benchmarks training

wheel: $(VENV)/installed-dev
	rm -rf build/lib* build/bdist*  # what an earlier build left would be in the wheel
	$(BIN)/python -m build --wheel

# The wheel in empty virtual environments, outside the checkout: once with torch, where the demo trains, and once without.
wheel-test: $(VENV)/installed-dev
	PYTHON=$(PYTHON) .ci/wheel-test

clean:
	rm -rf $(VENV) build dist demo
