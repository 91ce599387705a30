"""What the code offers is documented: every setting, every endpoint, every code of an error."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import typer

from index.evaluation.measures import DEFAULT_MEASURES
from index.learning.click_likelihood import CLICKS
from index.learning.clicked_ranks import RANKS
from index.learning.judgment_likelihood import JUDGMENTS
from service.app import create_app
from service.cli import app as cli
from service.http.answers import TaskType
from service.http.metrics import metric_names
from service.settings import PREFIX, Settings

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def endpoints() -> list[str]:
    """Return every endpoint as `METHOD /path`."""
    schema = create_app(Settings(encoder="hashing")).openapi()
    return [f"{method.upper()} {path}" for path, methods in schema["paths"].items() for method in methods]


def documented_endpoints(text: str) -> set[str]:
    """Return the endpoints that headings and tables of a page name as `METHOD /path`."""
    return set(re.findall(r"`((?:GET|PUT|POST|PATCH|DELETE) /[^`? ]*)", text))


def constant(node: ast.expr | None) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value


def codes_in(source: str) -> set[str]:
    """Return the codes that a source file gives to problems, to rejected items and to failed tasks."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Dict):
            keys = [key.value if isinstance(key, ast.Constant) else None for key in node.keys]
            for key, value in zip(keys, node.values, strict=True):
                if key == "code" or isinstance(key, int):
                    found.update(constant(value))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            name, arguments = node.func.id, node.args
            if name in ("Problem", "failed_item", "Fault") and len(arguments) > 1:
                found.update(constant(arguments[1]))
            elif name == "not_found":
                found.update(f"{what}_not_found" for what in constant(arguments[0]))
            elif name == "too_many" and len(arguments) > 1:
                found.update(f"too_many_{what}" for what in constant(arguments[1]))
            elif name == "_checked":
                found.update(constant(arguments[2]))
    return {code for code in found if re.fullmatch(r"[a-z]+(_[a-z]+)*", code)}


def codes() -> set[str]:
    files = [path for path in (ROOT / "service").rglob("*.py") if "cli" not in path.parts and "web" not in path.parts]
    return set().union(*(codes_in(path.read_text(encoding="utf-8")) for path in files))


@pytest.mark.parametrize("name", Settings.model_fields)
def test_every_setting_is_documented_with_its_default(name: str) -> None:
    rows = [line for line in page("settings.md").splitlines() if f"`{PREFIX}{name.upper()}`" in line]
    assert len(rows) == 1, f"docs/settings.md: one row for {PREFIX}{name.upper()}"
    assert f"`{Settings.model_fields[name].default}`" in rows[0]


def test_no_setting_is_documented_that_is_not_there() -> None:
    named = set(re.findall(rf"`{PREFIX}(\w+)`", page("settings.md")))
    assert {name.lower() for name in named} == set(Settings.model_fields)


def bounds(name: str) -> str | None:
    """Return the bounds of a setting as the page writes them, None for a setting without."""
    schema = Settings.model_json_schema()["properties"][name]
    number = next((kind for kind in schema.get("anyOf", [schema]) if "maximum" in kind), None)
    return number and f"{number['minimum']:,.10g} to {number['maximum']:,.10g}"


@pytest.mark.parametrize("name", [name for name in Settings.model_fields if bounds(name)])
def test_the_bounds_of_every_setting_are_documented(name: str) -> None:
    (row,) = (line for line in page("settings.md").splitlines() if f"`{PREFIX}{name.upper()}`" in line)
    assert str(bounds(name)) in row


def test_every_metric_is_documented_and_no_other() -> None:
    assert set(re.findall(r"^\| `(softseek_\w+)` \|", page("operations.md"), re.MULTILINE)) == metric_names()


def commands(group: Any, *words: str) -> Iterator[tuple[str, set[str], set[str]]]:
    """Yield the words of every command, the names of its options and of its arguments."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, *words, name)
            continue
        options = {one.name for one in command.params if one.param_type_name == "option"}
        yield " ".join((*words, name)), options, {one.name for one in command.params} - options


def test_the_commands_without_the_common_options_are_documented() -> None:
    def named(option: str) -> set[str]:
        (row,) = (line for line in page("cli.md").splitlines() if line.startswith(f"| `--{option} "))
        return set(re.findall(r"`([a-z ]+)`", row.split("|")[2]))

    found = list(commands(typer.main.get_command(cli)))
    assert named("url") == {name for name, options, _ in found if "url" not in options}
    by_argument = {name.split()[0] for name, _, arguments in found if "collection" in arguments}
    assert named("collection") == by_argument | {"collections"}


def test_every_endpoint_is_documented_and_no_other() -> None:
    there, told = set(endpoints()), documented_endpoints(page("api.md"))
    assert {"undocumented": there - told, "not there": told - there - {"GET /openapi.json", "GET /docs"}} == {
        "undocumented": set(),
        "not there": set(),
    }


def test_every_code_is_documented() -> None:
    found = codes()
    assert {"invalid_filter", "document_not_found", "too_many_events", "unknown_query", "invalid_event"} <= found
    assert sorted(code for code in found if f"`{code}`" not in page("api.md")) == []


NAMING_CHECKS = ("Check", "_better", "_not_lower", "_not_worse")
"""Functions whose first argument is the name of a check."""


def checks_in(source: str) -> set[str]:
    """Return the names that a source file gives to the checks of a decision."""
    calls = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    named = (call for call in calls if isinstance(call.func, ast.Name) and call.func.id in NAMING_CHECKS)
    return {name for call in named if call.args for name in constant(call.args[0])}


def test_every_check_and_measure_of_a_decision_is_documented() -> None:
    files = (ROOT / "index" / "learning").glob("*.py"), (ROOT / "index" / "evaluation").glob("*.py")
    found = set().union(*(checks_in(path.read_text(encoding="utf-8")) for paths in files for path in paths))
    assert {"judgments_better", "ndcg_not_lower", "clicks_better", "ranks_not_worse", "spread"} <= found
    missing = {
        name for name in found | {CLICKS, JUDGMENTS, RANKS, *DEFAULT_MEASURES} if f"`{name}`" not in page("api.md")
    }
    assert not missing, f"docs/api.md, Training: {sorted(missing)}"


def test_every_type_of_a_task_is_documented() -> None:
    listed = re.search(r"`type` is ([^.]*)\.", page("api.md"))
    assert listed
    assert tuple(re.findall(r"`(\w+)`", listed[1])) == get_args(TaskType)


def test_links_between_pages_lead_somewhere() -> None:
    for path in DOCS.rglob("*.md"):
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8")):
            assert (path.parent / target).exists(), f"{path.name} links to {target}"


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ('Problem(\n  422,\n  "too_odd", "detail")', "too_odd"),
        ('raise not_found("thing")', "thing_not_found"),
        ('return {"code": "too_odd"}', "too_odd"),
        ('too_many(items, "things")', "too_many_things"),
    ],
)
def test_a_code_is_found_in_source(source: str, code: str) -> None:
    assert codes_in(source) == {code}
