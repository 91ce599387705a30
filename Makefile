# One word each. `make setup` is quick when nothing changed; the other words start with it.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
WORKERS ?= 3

BIN := .venv/bin
HASHED := --require-hashes --no-deps --only-binary :all:
STAMP := .venv/.installed
# One native thread in each worker: more only make the workers wait for each other. Three workers on two cores: tests
# wait for other processes a fifth of their time. Files run in the order of their
# names: by default those with the fewest tests run last, slow files among them, and a worker waits for the last file.
PYTEST := OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false \
	$(BIN)/pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

# The project alone: all libraries take 68 s. A process that imports IMPORTED compiles the sixth of them that is used.
COMPILE := $(BIN)/python -m compileall -q -j 0 index service migrations
IMPORTED := service.app, index.learning.fit, transformers, hypothesis, matplotlib, playwright.sync_api, pypdf, schemathesis

NUMERIC := $(addprefix tests/index/,candidates generation learning memory ranking words)

# Compiled modules are kept, also where the environment says otherwise: the imports of a service take 1.8 s instead of 2.6.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup setup-verified peers demo serve test test-postgres test-kernels soak check format lock sbom audit

setup: $(STAMP)

# torch first and alone, pinned: installed along with the rest, pip may choose a CUDA build.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --no-compile --constraint constraints.txt torch==2.13.0
	# The lists of `make lock` without their hashes, both at once: pip uses one core. The line after them has the last word.
	for list in requirements requirements-dev; do sed -E '/^ +--hash/d; s/ \\$$//' $$list.txt >.venv/$$list.txt; done
	$(BIN)/pip install --no-compile --no-deps --requirement .venv/requirements.txt & first=$$!; \
	  $(BIN)/pip install --no-compile --no-deps --requirement .venv/requirements-dev.txt; wait $$first || true
	# Meanwhile a process compiles what it imports, so that the processes of tests, which start together, do not each do it.
	# openapi-python-client: without its dependencies, which all are installed but an older typer, for its command line only.
	$(BIN)/python -c 'import $(IMPORTED)' & compiled=$$!; \
	  $(BIN)/pip install --no-compile --constraint constraints.txt --editable '.[offline,dev]' && \
	  $(BIN)/pip install --no-compile --constraint constraints.txt --no-deps openapi-python-client; \
	  installed=$$?; wait $$compiled || true; exit $$installed
	$(COMPILE)
	@touch $@

# As setup, and every file must have a SHA-256 that a requirements file lists. It is not the default, because an index
# with other builds, such as another torch, or another platform would be refused. TORCH_INDEX: an index with CPU builds.
setup-verified:
	$(PYTHON) -m venv .venv
	$(BIN)/pip install $(HASHED) $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) -r requirements-torch.txt
	$(BIN)/pip install $(HASHED) -r requirements.txt -r requirements-dev.txt
	$(BIN)/pip install --constraint constraints.txt --no-build-isolation --editable '.[offline,dev]'
	$(COMPILE)
	@touch $(STAMP)

# Asks the index for the hashes of the pins; needed after each change of constraints.txt.
lock: setup
	$(BIN)/python .ci/lock.py

sbom: setup
	$(BIN)/python .ci/sbom.py sbom.json

# Compares the pins with a database of known vulnerabilities, which needs the network. A pin that the database does not
# know is an error too.
audit: .venv-audit/.installed
	.venv-audit/bin/pip-audit --strict --no-deps --disable-pip \
	  -r requirements-torch.txt -r requirements.txt -r requirements-dev.txt -r requirements-peers.txt

.venv-audit/.installed:
	$(PYTHON) -m venv .venv-audit
	.venv-audit/bin/pip install pip-audit==2.10.1
	@touch $@

# The libraries that benchmarks measure ours beside; nothing else needs them.
peers: setup
	$(BIN)/pip install --constraint constraints.txt --editable '.[offline,dev,peers]'

demo: setup
	$(BIN)/softseek demo

serve: setup
	$(BIN)/softseek serve

test: setup
	@.ci/install-browser
	$(PYTEST)

# All tests on PostgreSQL: each data directory of a test has a database of its own, on a server that the tests start.
# Tests of SQLite's files are left out.
test-postgres: setup
	TEST_POSTGRES=1 $(PYTEST)

# Scores and training, summed by kernels that no current processor chooses by itself: results must not depend on them.
# Left out are the slowest tests that need no second time: those of the trial cache compare runs with each other, and
# those of cascade clicks, of single forms and of values have wide margins and use the trainer of all other fits.
test-kernels: setup
	OPENBLAS_CORETYPE=Nehalem ONEDNN_MAX_CPU_ISA=AVX2 ATEN_CPU_CAPABILITY=default $(PYTEST) \
		$(addprefix --ignore tests/index/learning/test_,$(addsuffix .py,trial_cache cascade_clicks forms_in_training values)) \
		$(NUMERIC)

# The tests of faults and of the contract at full size, in one process: about an hour on two cores. See docs/faults.md.
soak: setup
	SOAK=1 OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false $(BIN)/pytest -p no:xdist \
		-o faulthandler_timeout=7200 tests/faults tests/service/test_contract.py

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy --strict
	$(BIN)/check-jsonschema --builtin-schema vendor.compose-spec docker-compose.yml

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
