# One word each. `make setup` is quick when nothing changed; the other words start with it.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
WORKERS ?= 2

BIN := .venv/bin
STAMP := .venv/.installed
# One native thread in each worker: more only make the workers wait for each other.
PYTEST := OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false $(BIN)/pytest -n $(WORKERS) --dist loadfile

NUMERIC := $(addprefix tests/index/,candidates generation learning memory ranking words)

.PHONY: setup peers demo serve test test-kernels soak check format

setup: $(STAMP)

# torch first and alone, pinned: installed along with the rest, pip may choose a CUDA build.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --constraint constraints.txt torch==2.13.0
	$(BIN)/pip install --constraint constraints.txt --editable '.[offline,dev]'
	# Without its dependencies, which all are installed but an older typer, for its command line only: a test calls it.
	$(BIN)/pip install --constraint constraints.txt --no-deps openapi-python-client
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

# Scores and training, summed by kernels that no current processor chooses by itself: results must not depend on them.
test-kernels: setup
	OPENBLAS_CORETYPE=Nehalem ONEDNN_MAX_CPU_ISA=AVX2 ATEN_CPU_CAPABILITY=default $(PYTEST) $(NUMERIC)

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
