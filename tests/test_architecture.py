"""Modules import from lower floors and from their own folder only, and SQL stands in repositories.

The checks read the source with `ast`; they neither import nor run it.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

FLOORS: dict[int, str] = {
    0: "index.characters index.errors index.records",
    1: "index.arguments index.candidates index.evaluation index.filters index.storage",
    2: "index.encoding index.memory index.words",
    3: "index.generation",
    4: "index.ranking",
    5: "index.learning index.partitions",
    6: "index.collection service.settings service.storage",
    7: "service.http",
    8: "service.access service.runtime",
    9: "service.aliases service.audit service.collections service.documents service.feedback service.keys"
    " service.models service.rules service.search service.snapshots service.suggestions service.tasks"
    " service.training",
    10: "service.erasures service.exports service.judging service.operations service.queries"
    " service.recommend service.web",
    11: "service.app service.cluster service.demo",
    12: "service.searchers service.workers",
    13: "service.partitions",
    14: "service.cli",
    15: "service.start",
}
"""Floor -> its folders, and the modules that stand beside them. The files of a folder may import each other."""

PACKAGES = {"index", "service"}
FOREIGN_TO_INDEX = {
    "alembic", "fastapi", "pydantic", "pydantic_settings", "service", "sqlalchemy", "starlette", "typer", "uvicorn",
}  # fmt: skip
"""Packages for HTTP, SQL and configuration, which the library does not import."""

WITHOUT_SQL = (
    "service.access", "service.aliases", "service.app", "service.audit", "service.cli", "service.cluster",
    "service.collections",
    "service.demo", "service.documents", "service.erasures", "service.exports", "service.feedback", "service.http",
    "service.judging", "service.keys", "service.models", "service.operations", "service.partitions", "service.queries",
    "service.recommend", "service.rules", "service.runtime", "service.search", "service.settings",
    "service.snapshots", "service.suggestions", "service.tasks", "service.training", "service.web",
    "service.workers",
)  # fmt: skip
"""Folders and modules of the service whose SQL stands in modules named `*repository`.

`service.storage` is not here, nor is `service.searchers`, which copies rows of all tables.
"""
SQL_TYPES = {"sqlalchemy.Connection", "sqlalchemy.Row", "sqlalchemy.RowMapping", "sqlalchemy.exc.SQLAlchemyError"}
"""Names that any module may import: types of connections and rows, for annotations, and the error to catch."""

ENVIRONMENT = {"environ", "environb", "getenv"}
ACTIONS = {
    "Settings", "basicConfig", "dictConfig", "load_encoder", "omp_set_num_threads", "set_num_interop_threads",
    "set_num_threads", "structlog.configure",
}  # fmt: skip
"""Calls with effects on the process. They stand in functions, so that importing a module does not run them."""


def modules() -> dict[str, Path]:
    """Return every module of both packages: dotted name -> file; a package is named by its folder."""
    files = (path for package in sorted(PACKAGES) for path in sorted((ROOT / package).rglob("*.py")))
    return {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in files}


MODULES = modules()
LIBRARY = [name for name in MODULES if name.split(".")[0] == "index"]

FLOOR_OF = {folder: floor for floor, folders in FLOORS.items() for folder in folders.split()}


def folder_of(name: str) -> str | None:
    """Return the folder or module of FLOORS that contains a dotted name."""
    prefix = ".".join(name.split(".")[:2])
    return prefix if prefix in FLOOR_OF else None


@cache
def imports(name: str, source: str, is_package: bool = False) -> list[tuple[int, str]]:
    """Return the line and the full dotted name of every import, also of imports inside functions."""
    return list(_imports(name, source, is_package))


def _imports(name: str, source: str, is_package: bool) -> Iterator[tuple[int, str]]:
    folder = name.split(".") if is_package else name.split(".")[:-1]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = folder[: len(folder) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)


def upward_imports(name: str, source: str, is_package: bool = False) -> list[str]:
    """Return a message for each import that is neither from a lower floor nor from the same folder."""
    own = folder_of(name)
    if own is None:
        return []
    faults = []
    for line, target in imports(name, source, is_package):
        other = folder_of(target)
        if target.split(".")[0] not in PACKAGES or other == own:
            continue
        if other is None:
            faults.append(f"{name}:{line} imports {target}, which is on no floor: import from a module, not a package")
        elif FLOOR_OF[other] >= FLOOR_OF[own]:
            faults.append(f"{name}:{line} on floor {FLOOR_OF[own]} imports {target} on floor {FLOOR_OF[other]}")
    return faults


def foreign_imports(name: str, source: str, is_package: bool = False) -> list[str]:
    """Return a message for each import that the library must not have."""
    return [
        f"{name}:{line} imports {target}"
        for line, target in imports(name, source, is_package)
        if target.split(".")[0] in FOREIGN_TO_INDEX
    ]


def sql_imports(name: str, source: str, is_package: bool = False) -> list[str]:
    """Return a message for each import of SQLAlchemy or of the tables outside a repository of WITHOUT_SQL."""
    if folder_of(name) not in WITHOUT_SQL or name.endswith("repository"):
        return []
    return [
        f"{name}:{line} imports {target}: move the query to the repository of its folder"
        for line, target in imports(name, source, is_package)
        if (target.split(".")[0] == "sqlalchemy" and target not in SQL_TYPES)
        or target.startswith("service.storage.tables")
    ]


class ImportTime(ast.NodeVisitor):
    """Collects the effects of importing a module. Bodies of functions do not run at import."""

    def __init__(self) -> None:
        self.found: list[tuple[int, str]] = []

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for part in [*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults)]:
            self.visit(part)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.visit_FunctionDef(node)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        for part in [*node.args.defaults, *filter(None, node.args.kw_defaults)]:
            self.visit(part)

    def visit_If(self, node: ast.If) -> None:
        if ast.unparse(node.test) != "__name__ == '__main__'":
            self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if node.id in ENVIRONMENT:
            self.found.append((node.lineno, node.id))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if node.attr in ENVIRONMENT:
            self.found.append((node.lineno, ast.unparse(node)))
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        called = ast.unparse(node.func)
        if any(f".{called}".endswith(f".{action}") for action in ACTIONS):
            self.found.append((node.lineno, called))
        self.generic_visit(node)


def import_effects(source: str) -> list[tuple[int, str]]:
    """Return the line and the name of each effect of importing this source."""
    visitor = ImportTime()
    visitor.visit(ast.parse(source))
    return visitor.found


def source_of(name: str) -> tuple[str, bool]:
    """Return a module's source, and whether it is a package."""
    path = MODULES[name]
    return path.read_text(encoding="utf-8"), path.name == "__init__.py"


def test_modules_have_a_floor() -> None:
    without = [name for name in MODULES if not source_of(name)[1] and not folder_of(name)]
    assert without == [], "give them a floor: a line in FLOORS of tests/test_architecture.py"


def test_imports_point_down() -> None:
    assert [fault for name in MODULES for fault in upward_imports(name, *source_of(name))] == []


def test_the_library_imports_nothing_of_the_application() -> None:
    assert [fault for name in LIBRARY for fault in foreign_imports(name, *source_of(name))] == []


def test_sql_stands_in_repositories() -> None:
    assert [fault for name in MODULES for fault in sql_imports(name, *source_of(name))] == []


def test_the_library_reads_no_environment() -> None:
    def names(source: str) -> set[str]:
        nodes = ast.walk(ast.parse(source))
        return {node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "") for node in nodes}

    assert [name for name in LIBRARY if names(source_of(name)[0]) & ENVIRONMENT] == []


def test_importing_has_no_effects() -> None:
    found = {name: import_effects(source_of(name)[0]) for name in MODULES}
    assert {name: effects for name, effects in found.items() if effects} == {}


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("index.records", "from index.ranking.search import Searcher"),
        ("index.records", "import index.ranking.search"),
        ("index.records", "def late():\n    from index import search"),
        ("index.records", "from index.errors import SearchError"),
        ("index.candidates.exact", "from ..memory.memory import Memory"),
        ("service.search.routes", "from service.documents.queries import rows"),
        ("service.search.routes", "from ..documents import queries"),
        ("service.search.routes", "from index import Searcher"),
    ],
)
def test_upward_and_sibling_imports_are_found(name: str, source: str) -> None:
    assert len(upward_imports(name, source)) == 1


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("index.ranking.search", "from index.records import Floats"),
        ("index.candidates.exact", "from .base import MISSING"),
        ("service.search.routes", "from . import queries"),
        ("service.search.routes", "from service.search.queries import rows"),
        ("service.search.routes", "from index.ranking.search import Searcher"),
        ("service.search.routes", "from fastapi import APIRouter"),
    ],
)
def test_imports_that_point_down_are_allowed(name: str, source: str) -> None:
    assert upward_imports(name, source) == []


def test_the_package_file_of_a_slice_follows_the_same_rule() -> None:
    assert upward_imports("service.search", "from .queries import rows", is_package=True) == []
    assert len(upward_imports("service.search", "from ..documents import queries", is_package=True)) == 1


def test_a_foreign_import_is_found() -> None:
    source = "import numpy\nfrom service.storage.tables import Row\nimport fastapi"
    assert len(foreign_imports("index.ranking.search", source)) == 2


@pytest.mark.parametrize(
    "source",
    [
        "from sqlalchemy import Connection, select",
        "from sqlalchemy.sql import text",
        "import sqlalchemy",
        "def late():\n    from sqlalchemy import func",
        "from service.storage.tables import MODELS",
    ],
)
def test_sql_outside_a_repository_is_found(source: str) -> None:
    assert len(sql_imports("service.models.actions", source)) == 1


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("service.models.repository", "from sqlalchemy import select"),
        ("service.runtime.task_repository", "from service.storage.tables_of_administration import TASKS"),
        ("service.storage.filter_sql", "from sqlalchemy import func"),
        ("service.models.actions", "from sqlalchemy import Connection"),
    ],
)
def test_sql_in_a_repository_is_allowed(name: str, source: str) -> None:
    assert sql_imports(name, source) == []


@pytest.mark.parametrize(
    "source",
    [
        "import os\nDATA = os.environ['DATA']",
        "from os import getenv\nDATA = getenv('DATA')",
        "import logging\nlogging.basicConfig()",
        "import torch\nif True:\n    torch.set_num_threads(1)",
        "def encode(encoder=load_encoder('hashing')): ...",
        "class Search:\n    settings = Settings()",
    ],
)
def test_an_effect_at_import_is_found(source: str) -> None:
    assert len(import_effects(source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        "def main():\n    torch.set_num_threads(1)\n    return load_encoder(os.environ['MODEL'])",
        "later = lambda: Settings()",
        "if __name__ == '__main__':\n    logging.basicConfig()",
        "class Search:\n    settings: Settings",
    ],
)
def test_an_effect_in_a_function_is_allowed(source: str) -> None:
    assert import_effects(source) == []
