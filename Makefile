# Every target sets up what it needs. Required: python3.11 with venv, make and git; `make e2e` needs Go too.
PYTHON ?= python3.11
CASES ?= ../shared/cel/cases.json
export SEED ?= 1
export POLICIES ?=
export TRIPLES ?=
export WORLDS ?=
export MINUTES ?= 2
export MUTANTS ?=
export BIND ?=
export SHORTEN ?=
export SCHEDULE ?=
export REPAIR ?=
export TIES ?=
export RUNS ?=
export SEEDS ?=
export GANGS ?=
export FAULTS ?=
export OPENB ?=
export OTHERS ?=
export PYTHONS ?=
PIP = .venv/bin/python -m pip --quiet --disable-pip-version-check
COMPILE = pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --quiet --custom-compile-command "make lock"

# Without bytecode each of the many processes that tests start would compile Placet again.
unexport PYTHONDONTWRITEBYTECODE
# Whoever builds a release has the same times in its archives.
unexport SOURCE_DATE_EPOCH

.PHONY: demo test thorough properties processes others hostile answers check fmt e2e e2e-all e2e-smoke contract e2e-installed differential differential-cel portable fgd rollouts repair repair-faults chaos chaos-mutants simulated bench instructions kube conformance \
	image-test sbom krew clean-tree release help lock versions openapi crds schema examples site clean
.DELETE_ON_ERROR:

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "%-18s%s\n", $$1, $$2}' Makefile | sort

demo: .venv/stamp  ## serve a built-in cluster and ready-made policies until Ctrl-C
	.venv/bin/placet serve --demo

# They wait for what sources and tenants do in minutes.
HOSTILE = tests/e2e/test_data_hostile.py tests/e2e/test_hostile_tenants.py
# Repairs that are disturbed: a leader waits for a minute before it evicts.
REPAIR_FAULTS = tests/e2e/test_repair_faults.py

# No test of these folders runs here, and reading them takes time.
OTHERS = tests/e2e tests/benchmarks tests/image tests/browser

# Random worlds and texts, curated mistakes, and proofs; recorded answers are compared by `processes`.
PROPERTIES = tests/properties tests/chaos tests/recorder tests/differential \
  tests/editors tests/cli/test_compare_proofs.py $(addprefix tests/grammar/test_, first_tries.py mistakes.py wishes.py)

# They read the source of everything, the docs, and the policies that ship.
SOURCE = $(addprefix tests/test_, architecture.py caches.py words.py fake_clock.py \
    documentation.py language_reference.py diagnostics_reference.py shown_commands.py) \
  $(addprefix tests/policies/test_, recipes.py library.py) tests/deploy/test_examples.py

test: .venv/stamp  ## run every test but properties, processes, e2e, bench, chaos and what is thorough
	.venv/bin/python -m pytest --numprocesses=auto --dist=worksteal \
	  $(addprefix --ignore=,$(OTHERS) $(PROPERTIES) $(SOURCE))

properties: .venv/stamp  ## run the tests of random worlds and texts, a part of the examples, and of curated mistakes; CI does
	.venv/bin/python -m pytest --numprocesses=auto --dist=worksteal $(PROPERTIES)

thorough: .venv/stamp answers  ## run all of `test`, `properties` and `processes` with all examples, and what takes too long for it
	.venv/bin/python -m pytest --numprocesses=auto --dist=worksteal \
	  -m "not e2e and not bench and not chaos and not rollouts and not image and not browser" --hypothesis-profile=thorough

processes: .venv/stamp  ## run the tests that start servers and end them in every way; CI does
	.venv/bin/python -m pytest --numprocesses=auto --dist=worksteal -m process $(addprefix --ignore=,$(OTHERS))

others: .venv/stamp  ## hold extenders of others, whose programs are in a folder, to the contract: make others OTHERS=~/extenders
	.venv/bin/python -m pytest -rs -m process tests/cli/conformance/test_others.py

hostile: .venv/stamp  ## measure a good client beside hostile ones, sources and tenants: make hostile CONNECTIONS=2000 MINUTES=10
	CONNECTIONS=$(or $(CONNECTIONS),2000) .venv/bin/python -m pytest -s -m process tests/server/test_hostile_clients.py
	.venv/bin/python -m pytest -s -m e2e -o faulthandler_timeout=3600 $(HOSTILE)

answers: .venv/stamp  ## compare the answers in all recorded worlds; `processes` compares a few
	.venv/bin/python -m tests.recorder --compare tests/golden/answers.json

check: .venv/stamp  ## check format, lint, types, layers, house rules, docs, and the policies that ship
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy
	.venv/bin/lint-imports
	.venv/bin/python -m pytest --quiet --numprocesses=auto --dist=worksteal $(SOURCE)
	.venv/bin/placet check policies/library cli/demo
	.venv/bin/placet test policies/library

fmt: .venv/stamp  ## format the source
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix-only .

# These need more programs, which take minutes to build where nothing is cached.
INSTALLED = $(addprefix tests/e2e/test_, data_metrics_server.py installed.py monitoring.py page.py)

ui-test: .venv/stamp  ## show the page in chromium, and policies in Neovim, or say why it skips
	.venv/bin/python -m pytest -m browser -rs tests/browser tests/editors

screenshots: ui-test  ## copy pictures of the page into the docs
	for name in home-1440-light home-390-dark verdict-1440-dark decisions-1440-light \
	    node-1440-light why-390-dark policies-1440-light policy-1440-light trial-1440-light gang-1440-light \
	    place-1440-light trends-1440-light; do \
	  cp build/screenshots/page-$$name.png docs/; done

# With PROCESSES=2 on two control planes, and files of tests in turn: most of their time is waiting.
E2E = .venv/bin/python -m pytest -m e2e -rs --numprocesses=$(or $(PROCESSES),0) --dist=loadfile -o faulthandler_timeout=3600
# Built before they begin; status 3 is that there is no Go, which the tests say.
BUILT = tests/e2e/kube/build >/dev/null || test $$? -eq 3

e2e: .venv/stamp  ## test with a real kube-scheduler; runs `kube` first, or says why it skips: make e2e PROCESSES=2
	$(BUILT)
	$(E2E) tests/e2e tests/differential \
	  $(addprefix --ignore=,$(OTHER_TARGETS) tests/differential/test_node_groups.py)

# These need the controllers of other projects, which take minutes to build where nothing is cached.
WORKLOADS = tests/e2e/test_workloads.py
# What kube-scheduler does of each version, which takes a minute.
CONTRACT_TEST = tests/e2e/test_contract_by_version.py
# Real control planes are asked for these by targets of their own.
OTHER_TARGETS = $(INSTALLED) $(HOSTILE) $(CONTRACT_TEST) $(REPAIR_FAULTS) $(WORKLOADS)

# Minor versions of Kubernetes whose control plane is built from tests/e2e/kube; and what is asked of each.
MINORS = 1.34 1.35 1.36
SMOKE = $(addprefix tests/e2e/test_,placement.py preempt.py bind.py limits.py gangs.py policy_objects.py wake_up.py \
  rejected_pods.py counting.py failover.py extender_chain.py placement_policy_plugins.py \
  pod_groups.py)

e2e-all: .venv/stamp  ## e2e on every minor version of Kubernetes: make e2e-all MINORS="1.34 1.35", or TESTS="FILE …"
	for minor in $(MINORS); do echo "Kubernetes $$minor"; export PLACET_KUBE_MINOR=$$minor; \
	  { $(BUILT); } && $(E2E) $(or $(TESTS),tests/e2e \
	  $(addprefix --ignore=,$(OTHER_TARGETS))) || exit 1; done

e2e-smoke: .venv/stamp  ## filter, prioritize, preempt, bind, limits and gangs on a minor version: make e2e-smoke MINORS=1.37
	$(MAKE) e2e-all TESTS="$(SMOKE)"

contract: .venv/stamp  ## observe kube-scheduler, and compare with tests/contract/versions.json or write it: make contract MINORS=1.37 WRITE=1
	CONTRACT=$(if $(WRITE),write) $(MAKE) e2e-all TESTS="$(CONTRACT_TEST)"

e2e-installed: .venv/stamp  ## test the chart with helm and kwok, and its alerts with Prometheus
	.venv/bin/python -m pytest -m e2e -o faulthandler_timeout=3600 tests/deploy $(INSTALLED)

differential: .venv/stamp  ## compare with the plugins of kube-scheduler: make differential WORLDS=2000 SEED=1
	WORLDS=$(or $(WORLDS),2000) .venv/bin/python -m pytest -m e2e -o faulthandler_timeout=3600 \
	  tests/differential/test_differential.py

differential-cel: .venv/stamp  ## compare with CEL of Kubernetes: make differential-cel EXPRESSIONS=10000 SEED=1
	EXPRESSIONS=$(or $(EXPRESSIONS),10000) .venv/bin/python -m pytest -m e2e -o faulthandler_timeout=3600 \
	  tests/differential/test_kubernetes_cel.py

fgd: .venv/stamp  ## compare GPU policies on the openb trace as published: make fgd TIES=random PLUGINS=yes
	.venv/bin/python -m tests.benchmarks.fgd

portable: .venv/stamp  ## compare portable policies with kube-scheduler and Karpenter: make portable TRIPLES=1000000 WORLDS=100000
	TRIPLES=$(or $(TRIPLES),200000) WORLDS=$(or $(WORLDS),5000) .venv/bin/python -m pytest -m e2e -o faulthandler_timeout=7200 \
	  tests/differential/test_portable.py tests/differential/test_node_groups.py

rollouts: .venv/stamp  ## roll out Deployments of all strategies and sizes on a real control plane
	.venv/bin/python -m pytest -m rollouts -o faulthandler_timeout=7200 tests/e2e/test_rollouts.py

workloads: .venv/stamp  ## run gangs of JobSet, LeaderWorkerSet, Kueue and Spark with their real controllers
	.venv/bin/python -m pytest -m e2e -rs -o faulthandler_timeout=7200 $(WORKLOADS)

repair: .venv/stamp  ## repair a share of 100 pods on a real control plane, in some minutes: make repair PODS=100
	PODS=$(or $(PODS),100) .venv/bin/python -m pytest -m e2e -rP -o faulthandler_timeout=7200 tests/e2e/test_repair.py

repair-faults: .venv/stamp  ## kill its leaders, contradict, roll out, refuse and switch it off, in half an hour: make repair-faults PODS=100
	PODS=$(or $(PODS),100) .venv/bin/python -m pytest -m e2e -rP -o faulthandler_timeout=7200 $(REPAIR_FAULTS)

chaos: .venv/stamp  ## disturb a real control plane: make chaos SEED=1 MINUTES=2 REPAIR=1, or POLICIES=200, CARDS=20 or GANGS=20
	RUNS=$(CARDS) .venv/bin/python -m pytest -m $(if $(CARDS),e2e,chaos) -rP -o faulthandler_timeout=7200 \
	  $(if $(CARDS),tests/e2e/test_cards.py,tests/chaos/test_$(if $(GANGS),gangs,$(if $(POLICIES),attacker,nemesis)).py)

chaos-mutants: .venv/stamp  ## plant faults in copies of the tree, which a simulated nemesis must find: make chaos-mutants SEEDS=1,2,3
	.venv/bin/python -m tests.chaos.mutants

simulated: .venv/stamp  ## disturb a simulated cluster without a bindVerb and with one: make simulated SEED=1 MINUTES=2 BIND=1 REPAIR=1 SHORTEN=1
	.venv/bin/python -m tests.chaos.simulated $(SEED) $(MINUTES) $(if $(BIND),$(if $(filter 0,$(BIND)),--no-bind,--bind)) $(if $(REPAIR),--repair) $(if $(SHORTEN),--shorten=60) \
	  $(if $(SCHEDULE),--schedule=$(SCHEDULE))

bench: .venv/stamp  ## measure; print a table and write .bench/results.json
	.venv/bin/python -m pytest -m bench -o faulthandler_timeout=3600 tests/benchmarks tests/test_shown_commands.py

instructions: .venv/stamp  ## count the instructions of a server for a pod: make instructions TREE=FOLDER PODS=100
	.venv/bin/python -m tests.benchmarks.instructions

kube:  ## build etcd, kubectl, the programs of Kubernetes and the plugins into a cache outside the tree
	tests/e2e/kube/build

conformance: .venv/stamp  ## run cases of the CEL conformance suite: make conformance CASES=file.json
	.venv/bin/python -m tests.conformance $(CASES)

.venv/stamp: requirements.lock pyproject.toml
	@echo "setting up .venv: the packages take about a minute, once"
	$(PYTHON) -m venv .venv
	$(PIP) install --require-hashes --requirement requirements.lock
	$(PIP) install --no-deps --no-build-isolation --editable .
	touch $@

image-test: .venv/stamp build/image/base.tar  ## build the image with buildah, without a daemon, and run it; needs root
	PLACET_IMAGE_BASE=$(CURDIR)/build/image/base.tar \
	  .venv/bin/python -m pytest -m image -rP -o faulthandler_timeout=3600 tests/image

# What python:3.11-slim is for users: Python 3.11 with venv, from Debian's packages.
build/image/base.tar:
	@lost=; for program in buildah mmdebstrap; do command -v $$program >/dev/null || lost="$$lost $$program"; done; \
	if [ -n "$$lost" ]; then echo "missing:$$lost; on Debian run: apt-get install$$lost" >&2; exit 1; fi
	@echo "making the base of the image: about a minute, once"
	mkdir -p build/image
	mmdebstrap --quiet --variant=minbase --include=python3.11,python3.11-venv bookworm $@

sbom: .venv/stamp  ## write build/sbom.cdx.json, the bill of materials of the wheel with the image's packages
	rm -rf build/sbom && mkdir -p build/sbom
	$(PYTHON) -m venv build/sbom/tools
	build/sbom/tools/bin/pip download --quiet --require-hashes --no-deps --dest build/sbom/locked \
	  --requirement requirements-image.lock
	build/sbom/tools/bin/pip install --quiet --no-index --find-links build/sbom/locked cyclonedx-bom
	.venv/bin/hatchling build --target wheel --directory build/sbom/wheel
	$(PYTHON) -m venv --without-pip build/sbom/placet
	build/sbom/tools/bin/pip --python build/sbom/placet/bin/python install --quiet --no-index \
	  --find-links build/sbom/locked --find-links build/sbom/wheel placet
	build/sbom/tools/bin/cyclonedx-py environment --output-reproducible --output-format JSON \
	  --output-file build/sbom.cdx.json build/sbom/placet/bin/python

KREW_PYTHONS = 3.11 3.12 3.13 3.14
KREW_PLATFORMS = --platform manylinux2014_x86_64 --platform manylinux_2_17_x86_64 --platform manylinux_2_28_x86_64

krew: .venv/stamp  ## build the archive of the kubectl plugin for krew in build/krew, and its manifest
	@test "$$(uname -sm)" = "Linux x86_64" || { echo "the archive is for Linux on x86_64: build it there" >&2; exit 1; }
	rm -rf build/krew && mkdir -p build/krew/placet
	.venv/bin/hatchling build --target wheel --directory build/krew/wheel
	for version in $(KREW_PYTHONS); do \
	  of="--python-version $$version --only-binary :all: $(KREW_PLATFORMS)" \
	  && $(PIP) download --require-hashes --no-deps $$of --dest build/krew/locked \
	    --requirement requirements-image.lock \
	  && $(PIP) install --no-compile --no-index --find-links build/krew/locked --find-links build/krew/wheel \
	    $$of --target build/krew/placet/lib/$$version placet || exit 1; \
	done
	rm -rf build/krew/placet/lib/*/bin  # programs with the path of this interpreter
	sed -i '/^\.\.\/\.\.\/bin\//d' build/krew/placet/lib/*/*.dist-info/RECORD
	.venv/bin/python -m compileall --invalidation-mode unchecked-hash -qq build/krew/placet/lib/3.11
	cp deploy/krew/kubectl-placet LICENSE build/krew/placet
	tar -C build/krew/placet --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX -cf - . \
	  | gzip -n > build/krew/placet-linux-amd64.tar.gz
	sum=$$(sha256sum < build/krew/placet-linux-amd64.tar.gz | cut -c1-64) \
	&& sed "s/sha256: .*/sha256: $$sum/" deploy/krew/placet.yaml > build/krew/placet.yaml

# What is in a release is in a commit; the times in its archives are no reason for another checksum.
clean-tree:  ## fail if there are changes that are in no commit
	@test -z "$$(git status --porcelain)" || { git status --short >&2; echo "commit these changes first" >&2; exit 1; }

release: clean-tree sbom krew  ## build wheel, sdist, chart, plugin, bill of materials and, with buildah, the image into build/release
	rm -rf build/release build/chart && mkdir -p build/release build/chart
	.venv/bin/hatchling build --target wheel --target sdist --directory build/release
	cp build/sbom.cdx.json build/krew/placet-linux-amd64.tar.gz build/release
	cp build/krew/placet.yaml build/release
	cp -R deploy/chart build/chart/placet && find build/chart -exec touch -d @0 {} +
	helm=$$(tests/e2e/kube/build helm) && "$$helm" package build/chart/placet --destination build/release
	if command -v buildah >/dev/null; then \
	  version=$$(.venv/bin/python -c 'from cli.version import version; print(version())') \
	  && buildah build --build-arg VERSION="$$version" --build-arg REVISION="$$(git rev-parse HEAD)" \
	    --tag placet . && buildah push placet oci-archive:build/release/placet-image.tar; \
	else echo "no image: buildah is not installed"; fi
	cd build/release && sha256sum -- * > SHA256SUMS && cat SHA256SUMS

vendor: .venv/stamp  ## fetch the libraries of the page from npm; tests/browser/vendor.py has the versions
	.venv/bin/python -m tests.browser.vendor

site: .venv/stamp build/zensical/stamp  ## build the documentation site in build/site/html, and check its links
	PYTHONPATH=build/zensical .venv/bin/python -m tests.site

# It has a folder of its own, because with its icons it is larger than the rest of .venv.
build/zensical/stamp: tests/site/requirements.txt .venv/stamp
	rm -rf build/zensical
	$(PIP) install --require-hashes --target build/zensical --requirement $<
	touch $@

# A locked version stays as long as pyproject.toml allows it. Delete a package's lines to update it,
# or the file to update all. The lock has no index address: pip uses the configured index.
lock:  ## write requirements.lock from pyproject.toml, and the requirements of the site
	uv=$$(mktemp -d) && trap 'rm -rf "$$uv"' EXIT && $(PYTHON) -m venv "$$uv" \
	&& "$$uv/bin/pip" install --quiet --disable-pip-version-check uv \
	&& "$$uv/bin/uv" $(COMPILE) pyproject.toml --group dev --output-file requirements.lock \
	&& "$$uv/bin/uv" $(COMPILE) pyproject.toml --group image --constraint requirements.lock \
	  --output-file requirements-image.lock \
	&& "$$uv/bin/uv" $(COMPILE) tests/site/requirements.in --output-file tests/site/requirements.txt

versions: .venv/stamp  ## test the server with the lowest and newest packages on each Python: make versions PYTHONS="3.11 3.13"
	.venv/bin/python -m tests.support.versions

openapi: .venv/stamp  ## write docs/openapi.yaml from the structs of the API
	.venv/bin/python -m tests.support.openapi_document > docs/openapi.yaml

crds: .venv/stamp  ## write the definitions of policy objects from their structs
	.venv/bin/python -m tests.support.definitions

schema: .venv/stamp  ## write the JSON schema of a PlacetConfiguration
	.venv/bin/python -m tests.support.configuration_schema > deploy/editors/placet-configuration.schema.json

examples: .venv/stamp  ## write deploy/examples from the library
	.venv/bin/python -m tests.support.library_examples

colours: .venv/stamp  ## write the keywords of the language into the grammar of the VS Code extension
	.venv/bin/python -m tests.editors.textmate

clean:  ## remove everything that make and its tools created here
	rm -rf .bench .venv build dist
	rm -rf .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
