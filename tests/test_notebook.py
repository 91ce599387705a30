"""docs/attention.ipynb: its code cells run in order, and each ends with an assertion that holds."""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib
import pytest

import index

DOCS = Path(__file__).parents[1] / "docs"
NAME = "attention.ipynb"
MAX_BYTES = 200_000
"""The size of the file with its images: readers see them without running the cells."""


@pytest.fixture(scope="module")
def cells() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((DOCS / NAME).read_text(encoding="utf-8"))["cells"]
    return found


@pytest.fixture
def pyplot() -> Iterator[Any]:
    """Matplotlib without a screen; the figures of a test are closed."""
    before = matplotlib.get_backend()
    matplotlib.use("Agg")
    from matplotlib import pyplot

    yield pyplot
    pyplot.close("all")
    matplotlib.use(before)


def sources(cells: list[dict[str, Any]], kind: str) -> list[str]:
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == kind]


def test_all_cells_run_and_their_assertions_hold(
    cells: list[dict[str, Any]], pyplot: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    namespace: dict[str, Any] = {}
    for number, source in enumerate(sources(cells, "code"), 1):
        exec(compile(source, f"{NAME}, code cell {number}", "exec"), namespace)
    assert len(pyplot.get_fignums()) >= 10
    assert "recipe" in capsys.readouterr().out


def test_every_code_cell_ends_with_an_assertion(cells: list[dict[str, Any]]) -> None:
    for number, source in enumerate(sources(cells, "code"), 1):
        assert isinstance(ast.parse(source).body[-1], ast.Assert), f"code cell {number}"


def test_the_cells_use_only_public_names_of_the_library(cells: list[dict[str, Any]]) -> None:
    imported = [
        (node.module, alias.name)
        for source in sources(cells, "code")
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    ]
    assert ("index", "Collection") in imported
    assert {name for module, name in imported if module == "index"} <= set(index.__all__)
    assert {module for module, _ in imported} == {"index"}


def test_links_lead_to_pages(cells: list[dict[str, Any]]) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", "\n".join(sources(cells, "markdown")))
    assert set(links) >= {"math.md", "library.md", "api.md"}
    assert all((DOCS / link).exists() for link in links)


def test_the_notebook_has_its_images_and_is_small(cells: list[dict[str, Any]]) -> None:
    images = [one for cell in cells for one in cell.get("outputs", []) if "image/png" in one.get("data", {})]
    assert len(images) >= 10
    assert (DOCS / NAME).stat().st_size < MAX_BYTES


def test_the_pages_that_list_the_documentation_name_the_notebook() -> None:
    assert f"docs/{NAME}" in (DOCS.parent / "README.md").read_text(encoding="utf-8")
    assert NAME in (DOCS / "math.md").read_text(encoding="utf-8")
