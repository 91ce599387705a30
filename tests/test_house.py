"""Rules of the house that a machine can read off the files: no pickles, nothing left undone, files that fit the eye."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MAX_PYTHON_LINES = 400

PICKLES = re.compile(
    r"\btorch\.load\("
    r"|^\s*(?:import|from)\s+(?:pickle|cloudpickle|dill|joblib|shelve)\b"
    r"|\ballow_pickle\s*=\s*True",
    re.MULTILINE,
)
"""Loading a pickle runs whatever code its writer put there; models are safetensors and JSON."""

UNDONE = re.compile(r"\b(?:TO[D]O|FIX[M]E)\b")
"""What is not done is an issue, not a comment."""


def repository_files() -> list[Path]:
    """Return the files that git tracks, or would: everything but what .gitignore names."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout: there is no list of the project's files")
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    """Return the text files written here: name -> content. Minified files and data lines come from elsewhere."""
    found = {}
    for path in repository_files():
        if b"\0" in path.read_bytes()[:8192] or path.match("*.min.*") or path.suffix == ".jsonl":
            continue
        found[path.relative_to(ROOT).as_posix()] = path.read_text(encoding="utf-8")
    return found


@pytest.fixture(scope="module")
def sources(texts: dict[str, str]) -> dict[str, str]:
    """Return the Python files: name -> content."""
    return {name: text for name, text in texts.items() if name.endswith(".py")}


def test_no_file_loads_a_pickle(sources: dict[str, str]) -> None:
    assert [name for name, text in sources.items() if PICKLES.search(text)] == []


def test_nothing_is_left_undone(texts: dict[str, str]) -> None:
    assert [name for name, text in texts.items() if UNDONE.search(text)] == []


def test_python_files_have_at_most_400_lines(sources: dict[str, str]) -> None:
    lengths = {name: len(text.splitlines()) for name, text in sources.items()}
    assert {name: length for name, length in lengths.items() if length > MAX_PYTHON_LINES} == {}


def test_this_file_is_checked_too(sources: dict[str, str]) -> None:
    assert "tests/test_house.py" in sources


@pytest.mark.parametrize(
    "line",
    ["torch." + "load('model.pt')", "import " + "pickle", "from " + "pickle import loads", "    import " + "dill"],
)
def test_a_pickle_is_found(line: str) -> None:
    assert PICKLES.search(f"x = 1\n{line}\n")


@pytest.mark.parametrize("word", ["TO" + "DO", "FIX" + "ME"])
def test_a_note_to_oneself_is_found(word: str) -> None:
    assert UNDONE.search(f"x = 1  # {word}: later")
