"""Modules of the search page in the Node.js of Playwright, without a browser."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from playwright._impl._driver import compute_driver_executable

from index.filters.parser import parse_filter
from service.search.schemas import SearchIn
from service.web import routes

NODE = compute_driver_executable()[0]
PAGE = """
globalThis.document = {body: {dataset: {collection: 'zoo'}}, getElementById: () => null};
globalThis.window = {addEventListener: () => null};
"""
FILTERABLE = ["lang", 'odd " name', "year"]


def evaluated(tmp_path: Path, expression: str) -> Any:
    """Return the value of an expression with the functions of wish.js."""
    shutil.copytree(Path(routes.__file__).parent / "static", tmp_path / "static")
    (tmp_path / "package.json").write_text('{"type": "module"}')
    code = f"{PAGE} const w = await import('./static/wish.js'); console.log(JSON.stringify({expression}));"
    (tmp_path / "run.js").write_text(code)
    done = subprocess.run([NODE, "run.js"], cwd=tmp_path, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    "address",
    [
        "?c=zoo&q=a+cat",
        "?c=zoo&q=a+cat&sort=year%3Aasc&mode=words&model=3&operators=off&typos=off",
        "?c=zoo&q=a&is.lang=en&is.lang=a%22b&is.x.y=1&min.year=2&max.year=3",
        "?c=zoo&q=a&is.__proto__=b",
    ],
)
def test_a_wish_is_written_as_it_was_read(tmp_path: Path, address: str) -> None:
    assert evaluated(tmp_path, f"w.addressOf(w.wishFrom({json.dumps(address)}))") == address


def test_the_request_is_as_documented(tmp_path: Path) -> None:
    address = (
        "?q=a cat&mode=dense&model=3&sort=year:asc&is.lang=e%22n&is.lang=de&min.year=2&max.year=x&is.odd%20%22%20name=1"
    )
    request = evaluated(tmp_path, f"w.searchOf(w.wishFrom({json.dumps(address)}), {json.dumps(FILTERABLE)}, 10)")
    made = SearchIn(**request)
    assert (made.prefix, made.operators, made.typos, made.snippet, made.log) == ("last", True, None, True, False)
    assert (made.mode, made.model, made.sort, made.offset) == ("dense", 3, ["year:asc"], 10)
    assert "text" not in (made.fields or ["text"])
    assert made.filter == '"lang" IN ["e\\"n", "de"] AND "odd \\" name" IN ["1"] AND "year" >= 2'
    parse_filter(made.filter.replace('odd \\" name', "year"), FILTERABLE)


def test_a_field_is_counted_without_its_own_filter(tmp_path: Path) -> None:
    wish = "w.wishFrom('?q=cat&is.lang=en&min.year=2')"
    request = evaluated(tmp_path, f"w.countOf({wish}, 'lang')")
    assert SearchIn(**request).filter == '"year" >= 2'
    assert (request["facets"], request["log"], request["limit"]) == (["lang"], False, 1)
    assert evaluated(tmp_path / "again", f"w.filteredFields({wish})") == ["lang", "year"]


def test_literal_words_and_spelling_are_requested(tmp_path: Path) -> None:
    request = evaluated(tmp_path, "w.searchOf(w.wishFrom('?q=cat&operators=off&typos=off'), [])")
    assert (request["operators"], request["typos"]) == (False, False)
    assert "facets" not in request
