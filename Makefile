# Two commands for a fresh machine: `make demo` and `make test`. Each installs what it needs first.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
# Those that run: a name on the path may be an empty promise of a version manager.
PYTHONS = $(foreach v,3.11 3.12 3.13,$(shell python$(v) -c 'import sys; print(sys.executable)' 2>/dev/null))
.PHONY: setup demo test quick test-deep follow cover lint bench docs release clean
unexport PYTHONDONTWRITEBYTECODE  # pytest would rewrite all tests in every run, which takes seconds

setup: $(INSTALLED)  ## Make .venv with nacre, all extras and the development tools.

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[all]' --group dev
	touch $@

demo: setup  ## Train NAC+ and three others on irregular spirals; the report is ./nacre-demo/report.html.
	$(BIN)/nacre demo

test: lint  ## Everything that CI checks.
	$(BIN)/python -m pytest -n 2 --dist worksteal

quick: setup  ## The fast tests only.
	$(BIN)/python -m pytest -n 2 -m 'not slow and not deep'

test-deep: lint  ## Everything, with many more examples; once before an issue is called resolved.
	NACRE_TEST_DEEP=1 $(BIN)/python -m pytest -n 2 --dist worksteal -m 'deep or not deep'

follow: setup  ## Every command and Python block of README and the pages, as a stranger would; long ones are cut short.
	$(BIN)/python tools/follow_pages.py

cover: setup  ## The tests of `make test`, and which branches they reach.
	$(BIN)/python -m pytest -n 2 --dist worksteal --cov --cov-report=term-missing:skip-covered --cov-fail-under=95

lint: setup  ## Style and types.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

bench: setup  ## Time and memory of every model beside torch.nn.MultiheadAttention, into ./results/.
	$(BIN)/nacre bench

docs: setup  ## Build the documentation into ./site/.
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

release: setup  ## Build sdist and wheel into ./dist/, and try the wheel in fresh environments: make release PYTHONS="python3.13".
	$(BIN)/python tools/check_release.py $(PYTHONS)

clean:  ## Remove everything that the targets above made.
	rm -rf .venv site dist nacre-demo .pytest_cache .ruff_cache .hypothesis .coverage
	find src tests tools docs examples -name __pycache__ -prune -exec rm -rf {} +
