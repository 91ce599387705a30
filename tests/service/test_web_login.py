"""The web pages of a service with API keys: they have no data, and ask for a key."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from fastapi.testclient import TestClient
from playwright.sync_api import BrowserContext, expect
from sqlalchemy import insert

from service.storage.database import new_id, now
from service.storage.tables import TRAINING_RUNS
from tests.service.authorised import Keys
from tests.service.browser import Visit, chromium, needs_chromium, served, session, tool
from tests.service.client import create, opened, runtime_of


@dataclass(frozen=True)
class LockedSite:
    """A served collection of tools, a browser session, and the keys."""

    client: TestClient
    address: str
    context: BrowserContext
    keys: Keys


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LockedSite]:
    with opened(tmp_path_factory.mktemp("login") / "data") as client, served(client) as address, chromium() as browser:
        tools = create(client, "tools", filterable=["topic", "year"])
        tools.add(*(tool("git", number) for number in range(3)))
        keys = Keys.first(client)
        with session(browser) as context:
            yield LockedSite(client, address, context, keys)


@pytest.fixture
def visit(site: LockedSite) -> Iterator[Visit]:
    with Visit.begin(site.context, site.address, "tools") as visit:
        yield visit
        assert visit.errors == []
        assert visit.foreign == []


def log_in(visit: Visit, key: str) -> None:
    """Type a key into the form."""
    visit.page.get_by_label("This service needs an API key").fill(key)
    visit.button("Log in").click()


@pytest.mark.parametrize("path", ["/", "/queries", "/learning"])
def test_a_page_of_a_service_with_keys_has_no_data(tmp_path_factory: pytest.TempPathFactory, path: str) -> None:
    with opened(tmp_path_factory.mktemp("plain") / "data") as client:
        create(client, "secret-name")
        Keys.first(client)
        known = client.get(path, params={"c": "secret-name"})
        unknown = client.get(path, params={"c": "another-name"})
        assert (known.status_code, unknown.status_code) == (200, 200)
        assert known.text.replace("secret-name", "another-name") == unknown.text
        assert "secret-name" not in client.get(path).text


@needs_chromium
def test_a_key_opens_the_page_and_is_kept_until_the_tab_is_closed(site: LockedSite, visit: Visit) -> None:
    visit.page.goto(visit.url())
    expect(visit.page.get_by_label("This service needs an API key")).to_be_focused()
    visit.page.goto(visit.url(q="git tool"))
    expect(visit.page.locator("#login")).to_be_visible()
    expect(visit.titles).to_have_count(0)
    for wrong in ("a wrong key", "sk_a\u200b", "sk_a\u2026"):  # a zero-width space and an ellipsis fit no header
        log_in(visit, wrong)
        expect(visit.page.get_by_text("The key is wrong")).to_be_visible()
        expect(visit.page.get_by_label("This service needs an API key")).to_be_empty()
        expect(visit.page.get_by_text("cannot be reached")).to_have_count(0)
    log_in(visit, site.keys.admin)
    expect(visit.titles).to_have_count(3)
    expect(visit.page.locator("#login")).to_be_hidden()
    expect(visit.page.locator("#collection option")).to_have_text(["tools", "default"])
    assert visit.page.context.cookies() == []
    assert site.keys.admin not in visit.page.url
    assert all(site.keys.admin not in one.url for one in visit.requests)
    visit.page.reload()
    expect(visit.titles).to_have_count(3)
    visit.button("Log out").click()
    expect(visit.page.locator("#login")).to_be_visible()


@needs_chromium
def test_a_key_without_the_log_searches(site: LockedSite, visit: Visit) -> None:
    visit.page.goto(visit.url(q="git tool"))
    log_in(visit, site.keys.make("search", collections=["tools"])["key"])
    expect(visit.titles).to_have_count(3)
    expect(visit.page.locator("#error")).to_be_hidden()
    visit.button("Log out").click()


@needs_chromium
def test_the_focus_goes_to_the_query_after_the_form(site: LockedSite, visit: Visit) -> None:
    visit.page.goto(visit.url(q="git tool"))
    log_in(visit, site.keys.admin)
    expect(visit.page.locator("#q")).to_be_focused()
    visit.button("Log out").click()


@needs_chromium
def test_a_key_without_events_opens_documents_and_is_offered_no_thumbs(site: LockedSite, visit: Visit) -> None:
    visit.page.goto(visit.url(q="git tool 0"))
    log_in(visit, site.keys.make("search", collections=["tools"])["key"])
    visit.button("git tool 0").click()
    expect(visit.page.locator(".text.whole")).to_have_count(1)
    expect(visit.page.locator(".thumb").first).to_be_disabled()
    expect(visit.page.locator(".thumb").first).to_have_attribute("title", re.compile("no scope “events”"))
    expect(visit.page.locator("#error")).to_be_hidden()
    visit.button("Log out").click()


@needs_chromium
def test_a_key_without_write_is_offered_the_deletion_once(site: LockedSite, visit: Visit) -> None:
    visit.page.goto(visit.url(q="git tool 1"))
    log_in(visit, site.keys.make("search", "events", collections=["tools"])["key"])
    visit.page.locator(".thumb").first.click()
    visit.button("delete all feedback on this search").click()
    expect(visit.page.locator("#error")).to_be_visible()
    visit.page.locator(".thumb").nth(2).click()
    expect(visit.page.locator(".done").nth(1)).to_have_text("Stored. Search again to see the effect.")
    visit.button("Log out").click()


@needs_chromium
def test_a_key_of_one_collection_opens_it(site: LockedSite, visit: Visit) -> None:
    visit.page.goto(f"{visit.address}/")
    log_in(visit, site.keys.make("search", "write", collections=["tools"])["key"])
    expect(visit.page).to_have_url(re.compile("c=tools"))
    visit.button("Log out").click()


def store_canceled_run(client: TestClient) -> None:
    """Store a training run that was canceled at once."""
    runtime = runtime_of(client)
    row = {"id": new_id(), "collection_id": runtime.collection("tools").id, "status": "canceled", "seed": 0}
    parts = {"promote": "auto", "steps": [], "data": {}, "report": {}, "decision": {}, "created_at": now()}
    with runtime.database.write() as connection:
        connection.execute(insert(TRAINING_RUNS).values(**row, **parts))


@needs_chromium
def test_the_learning_page_follows_a_run_with_a_key(site: LockedSite, visit: Visit) -> None:
    visit.page.goto(visit.url("/learning"))
    log_in(visit, site.keys.admin)
    expect(visit.page.locator("#champion")).to_contain_text("model 0")
    store_canceled_run(site.client)
    visit.page.reload()
    expect(visit.page.locator("#status")).to_contain_text("Run of")
    streams = [one for one in visit.requests if one.url.endswith("/stream")]
    assert [one.headers["authorization"] for one in streams] == [f"Bearer {site.keys.admin}"]


@needs_chromium
def test_a_key_that_ends_does_not_take_the_focus_from_a_query(site: LockedSite, visit: Visit) -> None:
    made = site.keys.make("search", collections=["tools"])
    visit.page.goto(visit.url(q="git tool"))
    log_in(visit, made["key"])
    expect(visit.titles).to_have_count(3)
    site.keys.expire(made)
    visit.page.locator("#q").fill("git")
    visit.press("End")
    expect(visit.page.locator("#login")).to_be_visible()
    expect(visit.page.get_by_role("alert").filter(has_text="wrong, or it has expired")).to_be_visible()
    visit.page.keyboard.type(" tools")
    expect(visit.page.locator("#q")).to_have_value("git tools")
    expect(visit.page.get_by_label("This service needs an API key")).to_have_value("")
    log_in(visit, site.keys.admin)
    expect(visit.titles).to_have_count(3)
    visit.button("Log out").click()
