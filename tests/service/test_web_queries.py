"""The page of queries in a browser, and the command that shows the same report."""

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.service.browser import Site, Visit, needs_chromium
from tests.service.client import create, opened
from tests.service.test_cli import Run, run

__all__ = ["run"]


@needs_chromium
def test_the_page_shows_what_people_search_and_click(site: Site, visit: Visit) -> None:
    tools = create(site.tools.client, "searched")
    tools.add({"id": "wrench", "text": "a wrench for bolts"}, {"id": "saw", "text": "a saw for wood"})
    for client_id in ("ada", "bob"):
        found = tools.search("bolts", client_id=client_id)
    tools.act(found["hits"][1]["id"], query_id=found["query_id"])
    tools.search("<b>wood</b>")
    visit.page.goto(f"{visit.address}/queries?c=searched")
    rows = visit.page.locator("#queries tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.first).to_have_text(re.compile("^bolts *2 *2 *50 % *0.25 *0$"))
    expect(rows.nth(1)).to_contain_text("<b>wood</b>")
    expect(visit.page.locator("#models tbody tr")).to_have_text(re.compile("^model 0 *3 *3 *33 % *0.17 *0$"))
    expect(visit.page.locator("#counts div").first).to_have_text("queries2")
    expect(visit.page.get_by_role("img", name="Searches a day, at most 3")).to_be_visible()
    visit.page.get_by_label("First the queries with most").select_option("searches without a click")
    expect(visit.page).to_have_url(re.compile("c=searched.*order=without_click"))
    expect(visit.page.locator("#order")).to_have_value("without_click")
    expect(rows).to_have_count(2)
    visit.page.get_by_role("link", name="bolts").click()
    expect(visit.titles).to_have_count(2)
    assert not visit.errors


@needs_chromium
def test_the_page_says_that_nothing_was_searched(site: Site, visit: Visit) -> None:
    create(site.tools.client, "quiet")
    visit.page.goto(f"{visit.address}/queries?c=quiet&days=7&order=nonsense")
    expect(visit.page.get_by_text("No search was logged in this time.")).to_be_visible()
    expect(visit.page.locator("#report")).to_be_hidden()
    expect(visit.page.locator("#days")).to_have_value("7")
    expect(visit.page.locator("#order")).to_have_value("searches")


def test_the_command_shows_the_report(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path / "data") as client:
        wood = create(client, "wood")
        wood.add({"id": "oak", "text": "an oak"})
        found = wood.search("oak", client_id="ada")
        wood.act("oak", query_id=found["query_id"])
        wood.search("pine", client_id="bob")
    monkeypatch.setenv("SOFTSEEK_ENCODER", "hashing")
    here = ("--data", tmp_path / "data")
    shown = run("queries", "wood", "--order", "without_click", "--days", 7, "--limit", 1, *here)
    lines = [line.split() for line in shown.out.splitlines()]
    assert lines[0][:3] == ["2", "queries", "since"]
    assert lines[2:4] == [["all", "2", "2", "50%", "0.50", "0"], ["model", "0", "2", "2", "50%", "0.50", "0"]]
    assert lines[-1] == ["pine", "1", "1", "0%", "0.00", "0"]
    assert json.loads(run("queries", "wood", "--json", *here).out)["total"]["clicked"] == 1
    assert run("queries", *here).out.startswith("no logged searches since ")
