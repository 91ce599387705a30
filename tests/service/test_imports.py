"""What answers searches is small: a process that serves holds no library that trains or converts a model."""

import ast
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
APART = {"service.training.child"}
"""Modules that are processes of their own and train."""
TRAINING = (
    "index.learning.torch_head",
    "index.learning.losses",
    "index.learning.trainer",
    "index.learning.trial_cache",
    "index.learning.model_selection",
    "index.learning.fit",
)
FOR_TENSORS = {"index.ranking.pair_gradient"}
"""Modules that `index.ranking.array_api` imports once it is given a tensor."""
HEAVY = ("torch", "array_api_compat.torch", "transformers", "sentence_transformers", "onnx")


def told_by(program: str) -> Any:
    """Return the value that a program prints last, run in a process of its own, whose threads nothing limits."""
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return ast.literal_eval(done.stdout.strip().splitlines()[-1])


def imported_by(*modules: str) -> set[str]:
    """Return the modules that a process has once it has imported these."""
    return set(told_by("".join(f"import {name}\n" for name in modules) + "import sys\nprint(sorted(sys.modules))"))


def modules_of(package: str) -> set[str]:
    files = (ROOT / package).rglob("*.py")
    names = (".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in files)
    return set(names)


def test_no_module_that_serves_imports_what_trains() -> None:
    served = sorted((modules_of("service") | modules_of("index")) - APART - FOR_TENSORS - set(TRAINING))
    assert len(served) > 80
    found = imported_by(*served)
    assert {
        "index.ranking.search",
        "index.ranking.checkpoint",
        "service.runtime.runtime",
        "service.search.routes",
    } <= found
    assert found & {*HEAVY, *TRAINING} == set()


def test_what_trains_is_told_from_what_serves_by_what_it_imports() -> None:
    """Otherwise the test above would hold for lists without meaning."""
    found = imported_by(*APART)
    assert {"torch", *TRAINING} <= found


def test_what_serves_multiplies_vectors_by_the_thread_that_asks(tmp_path: Path) -> None:
    """Threads of numpy's own would spin between searches, each on a core that other searches want."""
    threads = told_by(
        "from pathlib import Path; from threadpoolctl import threadpool_info\n"
        "from service.runtime.runtime import Runtime; from service.settings import Settings\n"
        f"settings = Settings(data=Path({str(tmp_path / 'data')!r}), encoder='hashing', log_level='error')\n"
        "runtime = Runtime.open(settings)\n"
        "runtime.close()\n"
        "print([one['num_threads'] for one in threadpool_info() if one.get('threading_layer') == 'pthreads'])"
    )
    assert threads == [1]
