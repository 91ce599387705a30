"""The figures of README.md and of the pages under docs/performance come from the stored results."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks import tables
from benchmarks.result_file import RESULTS, load_result
from benchmarks.tables import BLOCK, PLOTS, PROVENANCE, ROOT, TABLES, block_text, generated, pages, with_tables

MEASURED_PAGES = [
    *(ROOT / name for name in ("README.md", "docs/performance.md", "docs/attention.md", "docs/scale.md")),
    *(ROOT / "docs" / "performance").glob("*.md"),
]
MACHINE_PATH = re.compile(r'"/[^"]*"|(?:\.\./){2}|(?<![\w.])/(?:tmp|home|work|root)/')
FIGURE = re.compile(r"[*~+-]*\.?\d")
"""The beginning of a table cell that holds a measured figure."""


def measured_tables(text: str) -> Iterator[str]:
    """Yield the first line of every table with a cell that begins with a figure."""
    for found in re.finditer(r"(?:^\|.*\n)+", text, re.MULTILINE):
        first, _, *rows = found[0].splitlines()
        if any(FIGURE.match(cell.strip()) for row in rows for cell in row.strip("|").split("|")):
            yield first


def test_every_table_and_plot_is_what_the_results_give() -> None:
    differing = [path.name for path, text in generated() if path.read_text(encoding="utf-8") != text]
    assert differing == [], "run python -m benchmarks.tables"


@pytest.mark.parametrize("path", MEASURED_PAGES, ids=lambda path: path.name)
def test_no_measured_table_stands_outside_of_the_markers(path: Path) -> None:
    assert list(measured_tables(BLOCK.sub("", path.read_text(encoding="utf-8")))) == []


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.json")), ids=lambda path: path.stem)
def test_a_result_names_its_commit_date_and_command_and_is_shown_with_them(path: Path) -> None:
    measured = load_result(path)["measured"]
    assert re.fullmatch(r"[0-9a-f]{40}", measured["commit"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", measured["date"])
    assert measured["command"].startswith("python -m benchmarks.")
    blocks = {block[2] for page in MEASURED_PAGES for block in BLOCK.finditer(page.read_text(encoding="utf-8"))}
    assert f"{path.stem}.measured" in blocks
    assert any(name in blocks for name in TABLES if name.startswith(f"{path.stem}."))


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.json")), ids=lambda path: path.stem)
def test_a_result_has_no_path_of_the_machine_that_measured(path: Path) -> None:
    assert MACHINE_PATH.findall(path.read_text(encoding="utf-8")) == []


def test_every_marker_names_a_table_and_is_closed() -> None:
    for path in pages():
        text = path.read_text(encoding="utf-8")
        names = [block[2] for block in BLOCK.finditer(text)]
        assert len(names) == text.count("<!-- table:") == text.count("<!-- end -->"), path.name
        assert [name for name in names if name not in TABLES and name.partition(".")[2] not in PROVENANCE] == []


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Return a copy of the stored results."""
    return Path(shutil.copytree(RESULTS, tmp_path / "results"))


def changed(path: Path, change: Any) -> None:
    result = json.loads(path.read_text(encoding="utf-8"))
    change(result)
    path.write_text(json.dumps(result), encoding="utf-8")


def test_another_figure_changes_the_page(results: Path) -> None:
    page = "<!-- table: learning.peers -->\n<!-- end -->\n"
    changed(results / "learning.json", lambda one: one["figures"]["mean"]["trained"].update({"nDCG@10": 0.123}))
    assert "**.123**" in with_tables(page, results)
    assert "**.123**" not in with_tables(page)


def test_another_figure_changes_the_plot(results: Path) -> None:
    changed(results / "growth.json", lambda one: one["figures"]["sizes"][0].update({"p99_ms": 77.5}))
    drawn = dict(generated(results=results))
    assert all("77.5" in drawn[ROOT / name] for name in PLOTS)


def test_without_a_stored_result_the_block_says_so_and_has_no_figure(results: Path) -> None:
    (results / "learning.json").unlink()
    text = with_tables("<!-- table: learning.peers -->\n| old | .713 |\n<!-- end -->", results)
    assert text == "<!-- table: learning.peers -->\nNo result is stored yet.\n<!-- end -->"


def test_notes_and_remarks_are_replaced_with_the_result(results: Path) -> None:
    changed(results / "learning.json", lambda one: one["measured"].update(note="Taken on a Sunday."))
    assert "Taken on a Sunday." in block_text("learning.note", results)
    changed(results / "learning.json", lambda one: one.update(remarks=[]))
    changed(results / "learning.json", lambda one: one["measured"].update(note=""))
    assert "Sunday" not in block_text("learning.note", results)
    assert "\n- " not in block_text("learning.measured", results)


@pytest.mark.parametrize("name", ["learning.unknown", "unknown.measured"])
def test_an_unknown_table_is_refused(name: str) -> None:
    with pytest.raises(KeyError):
        block_text(name)


def test_a_result_of_another_shape_is_refused(tmp_path: Path) -> None:
    (tmp_path / "learning.json").write_text('{"commit": "x", "sets": {}}', encoding="utf-8")
    with pytest.raises(ValueError, match=r"learning\.json"):
        block_text("learning.peers", tmp_path)


def test_check_writes_nothing_and_fails_where_a_page_differs(
    tmp_path: Path, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "README.md").write_text("<!-- table: learning.peers -->\n<!-- end -->\n", encoding="utf-8")
    (tmp_path / "docs").mkdir()
    monkeypatch.setattr(tables, "ROOT", tmp_path)
    monkeypatch.setattr(tables, "generated", lambda: generated(tmp_path, results))
    monkeypatch.setattr("sys.argv", ["tables", "--check"])
    with pytest.raises(SystemExit, match="run python"):
        tables.main()
    assert "lambdamart" not in (tmp_path / "README.md").read_text(encoding="utf-8")
    monkeypatch.setattr("sys.argv", ["tables"])
    tables.main()
    assert "lambdamart" in (tmp_path / "README.md").read_text(encoding="utf-8")
    monkeypatch.setattr("sys.argv", ["tables", "--check"])
    tables.main()


def test_a_measured_table_is_found_and_a_table_of_words_is_not() -> None:
    assert list(measured_tables("| a | b |\n| --- | --- |\n| x | **.713** |\n")) == ["| a | b |"]
    assert list(measured_tables("| a | b |\n| --- | --- |\n| x | best of 80 |\n")) == []
