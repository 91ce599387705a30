"""The serving process imports no library that trains or converts models, so it needs little memory."""

import ast
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
TRAINING_PROCESSES = {"service.training.child"}
"""Modules that run as training processes."""
TRAINING = (
    "index.learning.torch_head",
    "index.learning.losses",
    "index.learning.trainer",
    "index.learning.trial_cache",
    "index.learning.model_selection",
    "index.learning.fit",
)
FOR_TENSORS = {"index.ranking.pair_gradient"}
"""Modules that `index.ranking.array_api` imports at its first tensor."""
HEAVY = ("torch", "array_api_compat.torch", "transformers", "sentence_transformers", "onnx")


def printed_by(program: str) -> Any:
    """Run a program in a process without thread limits, and return the value that it prints last."""
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return ast.literal_eval(done.stdout.strip().splitlines()[-1])


def imported_by(*modules: str) -> set[str]:
    """Return the modules that are loaded after a process has imported these."""
    return set(printed_by("".join(f"import {name}\n" for name in modules) + "import sys\nprint(sorted(sys.modules))"))


def modules_of(package: str) -> set[str]:
    files = (ROOT / package).rglob("*.py")
    names = (".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in files)
    return set(names)


def test_no_serving_module_imports_a_training_module() -> None:
    served = sorted((modules_of("service") | modules_of("index")) - TRAINING_PROCESSES - FOR_TENSORS - set(TRAINING))
    assert len(served) > 80
    found = imported_by(*served)
    assert {
        "index.ranking.search",
        "index.ranking.checkpoint",
        "service.runtime.runtime",
        "service.search.routes",
    } <= found
    assert found & {*HEAVY, *TRAINING} == set()


def test_the_training_process_imports_the_training_modules() -> None:
    """Without this test, the test above would pass with meaningless lists."""
    found = imported_by(*TRAINING_PROCESSES)
    assert {"torch", *TRAINING} <= found


def test_the_serving_process_limits_blas_to_a_thread(tmp_path: Path) -> None:
    """The threads of BLAS would spin between searches and occupy cores that other searches need."""
    threads = printed_by(
        "from pathlib import Path; from threadpoolctl import threadpool_info\n"
        "from service.runtime.runtime import Runtime; from service.settings import Settings\n"
        f"settings = Settings(data=Path({str(tmp_path / 'data')!r}), encoder='hashing', log_level='error')\n"
        "runtime = Runtime.open(settings)\n"
        "runtime.close()\n"
        "print([one['num_threads'] for one in threadpool_info() if one.get('threading_layer') == 'pthreads'])"
    )
    assert threads == [1]
