# Every target sets up what it needs. Needs python3.11 with venv, make and git; `make e2e` needs Go too.
PYTHON ?= python3.11
CASES ?= ../shared/cel/cases.json
PIP = .venv/bin/python -m pip --quiet --disable-pip-version-check
COMPILE = pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --quiet --custom-compile-command "make lock"

.PHONY: demo test answers check fmt e2e bench kube conformance lock clean
.DELETE_ON_ERROR:

demo: .venv/stamp  ## serve an embedded cluster and ready-made policies until Ctrl-C
	.venv/bin/placet serve --demo

test: .venv/stamp  ## every test but e2e and bench
	.venv/bin/python -m pytest --numprocesses=auto --dist=worksteal

answers: .venv/stamp  ## the whole program's answers in all recorded worlds, of which `test` has a few
	.venv/bin/python -m tests.recorder --compare tests/golden/answers.json

check: .venv/stamp  ## format, lint, types, layers, and the policies that ship
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy
	.venv/bin/lint-imports
	.venv/bin/placet check policies/library cli/demo
	.venv/bin/placet test --threshold 100 policies/library

fmt: .venv/stamp  ## what `check` asks of the format
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix-only .

e2e: .venv/stamp  ## under a real kube-scheduler; builds what `kube` builds, or says why it skips
	.venv/bin/python -m pytest -m e2e -o faulthandler_timeout=3600 tests/e2e

bench: .venv/stamp .bench/peers/stamp  ## measure: a table, and .bench/results.json
	.venv/bin/python -m pytest -m bench -o faulthandler_timeout=3600 tests/benchmarks tests/test_simulate_page.py

kube:  ## etcd, kube-apiserver, kube-scheduler, kubectl, into a cache outside the tree
	tests/e2e/kube/build

conformance: .venv/stamp  ## make conformance CASES=file.json: cases of the CEL conformance suite
	.venv/bin/python -m tests.conformance $(CASES)

.venv/stamp: requirements.lock pyproject.toml
	$(PYTHON) -m venv .venv
	$(PIP) install --require-hashes --requirement requirements.lock
	$(PIP) install --no-deps --no-build-isolation --editable .
	touch $@

# What Placet is measured against has a folder of its own, for what it depends on may be at odds with
# .venv. Where it cannot be installed the rest is measured all the same.
.bench/peers/stamp: tests/benchmarks/requirements.txt .venv/stamp
	rm -rf .bench/peers
	$(PIP) install --require-hashes --target .bench/peers --requirement $< && touch $@ \
	|| { rm -rf .bench/peers; echo "the peers could not be installed: they are left out"; }

# Versions stay where the lock has them and pyproject.toml allows them; delete a package's lines to
# move it, the file to move all. No index address gets in: pip looks where it is configured to.
lock:  ## requirements.lock from pyproject.toml, and what the benchmarks install
	uv=$$(mktemp -d) && trap 'rm -rf "$$uv"' EXIT && $(PYTHON) -m venv "$$uv" \
	&& "$$uv/bin/pip" install --quiet --disable-pip-version-check uv \
	&& "$$uv/bin/uv" $(COMPILE) pyproject.toml --group dev --output-file requirements.lock \
	&& "$$uv/bin/uv" $(COMPILE) tests/benchmarks/requirements.in \
	  --output-file tests/benchmarks/requirements.txt

clean:  ## everything that make and its tools made here
	rm -rf .bench .venv build dist
	rm -rf .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
