"""A serving process imports no library for training or converting models, and of SQLAlchemy the core alone."""

import ast
import os
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from service.cli.client import client_for

ROOT = Path(__file__).parents[2]
SEPARATE = {"service.cluster.training", "service.training.child"}
"""Modules that run as separate processes and train."""
TRAINING = (
    "index.learning.torch_head",
    "index.learning.losses",
    "index.learning.reinforce",
    "index.learning.trainer",
    "index.learning.trial_cache",
    "index.learning.model_selection",
    "index.learning.fit",
    "index.learning.held_out",
    "index.learning.context_selection",
    "index.learning.optimism",
    "index.learning.ordered_choice",
    "index.learning.validation_groups",
    "index.learning.tree_selection",
    "index.learning.prior_fit",
    "index.learning.prior_selection",
    "index.learning.null_slot",
    "index.learning.from_documents",
)
FOR_TENSORS = {"index.ranking.pair_gradient"}
"""Modules that `index.ranking.array_api` imports when it receives a tensor."""
HEAVY = (
    "torch",
    "lightgbm",
    "matplotlib",
    "array_api_compat.torch",
    "transformers",
    "sentence_transformers",
    "onnx",
    "sqlalchemy.orm",
)


def printed_by(program: str) -> Any:
    """Run a program in a separate process without limits of threads; return the last value that it prints."""
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return ast.literal_eval(done.stdout.strip().splitlines()[-1])


def imported_by(*modules: str) -> set[str]:
    """Return the modules that are loaded in a process after it has imported these."""
    return set(printed_by("".join(f"import {name}\n" for name in modules) + "import sys\nprint(sorted(sys.modules))"))


def modules_of(package: str) -> set[str]:
    files = (ROOT / package).rglob("*.py")
    names = (".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in files)
    return set(names)


def test_serving_modules_do_not_import_training_modules() -> None:
    served = sorted((modules_of("service") | modules_of("index")) - SEPARATE - FOR_TENSORS - set(TRAINING))
    assert len(served) > 80
    found = imported_by(*served)
    assert {
        "index.ranking.search",
        "index.ranking.checkpoint",
        "service.runtime.runtime",
        "service.search.routes",
    } <= found
    assert found & {*HEAVY, *TRAINING} == set()


@pytest.mark.sqlite
def test_commands_start_without_the_libraries_of_the_service() -> None:
    """They take most of the time of a short command."""
    found = imported_by("service.cli")
    assert {"service.cli.ingest", "service.cli.feedback"} <= found
    assert found & {*HEAVY, "fastapi", "httpx", "pydantic", "numpy", "rich", "sqlalchemy", "faiss", "tantivy"} == set()


def test_training_processes_import_the_training_modules() -> None:
    """Otherwise the test above would pass with wrong lists."""
    found = imported_by(*SEPARATE)
    assert {"torch", *TRAINING} <= found


def test_a_serving_process_multiplies_vectors_with_a_single_thread(tmp_path: Path) -> None:
    """Threads of numpy would spin between searches and take cores from other searches."""
    threads = printed_by(
        "from pathlib import Path; from threadpoolctl import threadpool_info\n"
        "from service.runtime.runtime import Runtime; from service.settings import Settings\n"
        f"settings = Settings(data=Path({str(tmp_path / 'data')!r}), encoder='hashing', log_level='error')\n"
        "runtime = Runtime.open(settings)\n"
        "runtime.close()\n"
        "print([one['num_threads'] for one in threadpool_info() if one.get('threading_layer') == 'pthreads'])"
    )
    assert threads == [1]


@pytest.mark.parametrize("address", ["http://127.0.0.1:8080", "http://localhost", "http://[::1]:8080"])
def test_a_client_of_a_local_server_reads_no_certificates(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setattr(ssl, "create_default_context", Mock(side_effect=AssertionError))
    client_for(address).close()
    for other in ("https://127.0.0.1", "http://search.example.org"):
        with pytest.raises(AssertionError):
            client_for(other)
