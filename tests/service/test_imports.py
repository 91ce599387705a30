"""What answers searches is small: a process that serves holds no library that trains or converts a model."""

import ast
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
APART = {"service.training.child"}
"""Modules that are processes of their own and train."""
TRAINING = ("index.trainable", "index.losses", "index.trials", "index.journal", "index.choice", "index.train")
HEAVY = ("torch", "array_api_compat.torch", "transformers", "sentence_transformers", "onnx")


def imported_by(*modules: str) -> set[str]:
    """Return the modules that a process has once it has imported these."""
    program = "".join(f"import {name}\n" for name in modules) + "import sys\nprint(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(ast.literal_eval(done.stdout.strip().splitlines()[-1]))


def modules_of(package: str) -> set[str]:
    files = (ROOT / package).rglob("*.py")
    names = (".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in files)
    return set(names)


def test_no_module_that_serves_imports_what_trains() -> None:
    served = sorted((modules_of("service") | modules_of("index")) - APART - set(TRAINING))
    assert len(served) > 80
    found = imported_by(*served)
    assert {"index.search", "index.models", "service.runtime", "service.search.routes"} <= found
    assert found & {*HEAVY, *TRAINING} == set()


def test_what_trains_is_told_from_what_serves_by_what_it_imports() -> None:
    """Otherwise the test above would hold for lists without meaning."""
    found = imported_by(*APART)
    assert {"torch", *TRAINING} <= found
