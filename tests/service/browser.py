"""Chromium on the web pages of a service in this process, for tests. A visit records what its page does."""

import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import uvicorn
from fastapi.testclient import TestClient
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Locator,
    Page,
    Request,
    Route,
    expect,
    sync_playwright,
)

from tests.service.client import DEADLINE_SECONDS, CollectionClient, create, opened, runtime_of

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""The browsers that `.ci/install-browser` looks for."""
CHROMIUM = next(filter(None, map(shutil.which, BROWSERS)), "")
needs_chromium = pytest.mark.skipif(not CHROMIUM, reason="needs Chromium")
FAILED_RESPONSE = "Failed to load resource"
"""Chromium reports every response of status 400 and above with these words. Tests of failures cause them."""

DEADLINE = DEADLINE_SECONDS * 1000 / 4
"""Limit of each wait, in milliseconds. A test that reaches it fails."""
expect.set_options(timeout=DEADLINE)
TOPICS = ("shell", "python", "git")


@contextmanager
def chromium() -> Iterator[Browser]:
    """Yield a Chromium that asks no host for updates."""
    with sync_playwright() as playwright:
        quiet = ["--disable-background-networking", "--disable-component-update", "--disable-quic"]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=quiet)
        yield browser
        browser.close()


@contextmanager
def session(browser: Browser) -> Iterator[BrowserContext]:
    """Yield a session for many visits: a new one for each would double their time. A visit finds nothing stored."""
    with browser.new_context(viewport={"width": 1280, "height": 900}) as context:
        context.set_default_timeout(DEADLINE)
        context.add_init_script("if (!sessionStorage.begun) localStorage.clear(); sessionStorage.begun = 'yes'")
        yield context


def stop_clock(context: BrowserContext) -> None:
    """Stop the clock of the pages of a session for good: their timers wait for `Visit.pass_time`.

    Chromium then has no navigation entries, which the search page reads if its address has a query.
    """
    now = datetime.now(UTC)
    context.clock.install(time=now - timedelta(hours=1))
    context.clock.pause_at(now)


@contextmanager
def served(client: TestClient) -> Iterator[str]:
    """Yield the address at which the application of a started client is served."""
    config = uvicorn.Config(client.app, host="127.0.0.1", port=0, log_config=None, lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started and thread.is_alive():
        thread.join(0.01)
    yield "http://{}:{}".format(*server.servers[0].sockets[0].getsockname())
    server.should_exit = True
    thread.join()


@dataclass
class Visit:
    """A page of a session, at first blank.

    `errors` are the errors of its scripts and of the browser's console, `foreign` the addresses on other hosts that
    it requested, except links that it followed.
    """

    page: Page
    address: str
    collection: str
    errors: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)

    @classmethod
    @contextmanager
    def begin(cls, context: BrowserContext, address: str, collection: str) -> Iterator["Visit"]:
        """Yield a visit. No request leaves this machine: a link to another host leads to an empty page."""
        visit = cls(context.new_page(), address, collection)
        visit.page.route(re.compile(f"^(?!{re.escape(address)}/)"), visit._meet)
        visit.page.on("request", lambda request: visit.requests.append(request))
        visit.page.on("pageerror", lambda error: visit.errors.append(str(error)))
        visit.page.on("console", visit._read)
        yield visit
        visit.page.close()

    def _meet(self, route: Route) -> None:
        if not route.request.is_navigation_request():
            self.foreign.append(route.request.url)
        route.fulfill(body="<!doctype html><title>Another host</title>", content_type="text/html")

    def _read(self, message: ConsoleMessage) -> None:
        if message.type == "error" and not message.text.startswith(FAILED_RESPONSE):
            self.errors.append(message.text)

    def open(self, path: str = "/", **parameters: Any) -> None:
        """Open a page of the collection. Returns when the search page has its fields, and the hits of its query."""
        self.page.goto(self.url(path, **parameters))
        if path == "/":
            expect(self.page.locator("#sort option").nth(1)).to_be_attached()
        if "q" in parameters:
            expect(self.page.locator("#summary:not(:empty), #error:not([hidden])")).to_be_visible()

    def url(self, path: str = "/", **parameters: Any) -> str:
        """Return the address of a page of the collection."""
        return f"{self.address}{path}?{urlencode({'c': self.collection} | parameters, doseq=True)}"

    def pass_time(self, milliseconds: int) -> None:
        """Let time pass on the stopped clock."""
        self.page.clock.run_for(milliseconds)

    @contextmanager
    def held(self, address: str) -> Iterator[None]:
        """Hold the page's requests to addresses of this pattern until the end of the block, as on a slow network."""
        waiting: list[Route] | None = []
        self.page.route(address, lambda route: route.continue_() if waiting is None else waiting.append(route))
        yield
        released, waiting = waiting, None
        for route in released:
            route.continue_()

    def type(self, text: str) -> None:
        """Type into the search box, behind its text."""
        self.page.locator("#q").press_sequentially(text)

    def search(self, q: str) -> None:
        """Paste a query, and wait until its hits are shown: new hits could remove what is clicked next."""
        with self.answered(q):
            self.page.locator("#q").fill(q)

    @contextmanager
    def answered(self, q: str) -> Iterator[None]:
        """Wait at the end of the block until the hits of a query are shown that it searches for."""
        with self.page.expect_request_finished(lambda one: is_search(one) and one.post_data_json["q"] == q):
            yield
        expect(self.page.locator("#hits[aria-busy]")).to_have_count(0)

    def press(self, key: str) -> None:
        """Press a key."""
        self.page.keyboard.press(key)

    def button(self, name: str) -> Locator:
        """Return the button with this text."""
        return self.page.get_by_role("button", name=name)

    @property
    def titles(self) -> Locator:
        """The titles of the hits."""
        return self.page.locator("#hits h2")

    def posted(self, path: str) -> list[dict[str, Any]]:
        """Return the bodies of the page's requests to a path of the collection, oldest first."""
        return [one.post_data_json for one in self.requests if one.method == "POST" and one.url.endswith(f"/{path}")]

    def logged_searches(self) -> list[str]:
        """Return the texts of the searches that the page asked to log."""
        return [body["q"] for body in self.posted("search") if body["log"]]


def is_search(request: Request) -> bool:
    """Whether a request is a search."""
    return request.method == "POST" and request.url.endswith("/search")


def logs(request: Request) -> bool:
    """Whether a request is a search to be logged."""
    return is_search(request) and request.post_data_json["log"]


@dataclass(frozen=True)
class Site:
    """A served collection of tools, a client in the same process, and a browser with two sessions."""

    address: str
    tools: CollectionClient
    flowing: BrowserContext
    stopped: BrowserContext

    @contextmanager
    def visit(self, stopped: bool = False) -> Iterator[Visit]:
        """Yield a visit. At its end, no script has failed and no other host was asked for anything."""
        with Visit.begin(self.stopped if stopped else self.flowing, self.address, self.tools.name) as visit:
            yield visit
            assert visit.errors == []
            assert visit.foreign == []

    def stored(self, statement: str) -> list[tuple[Any, ...]]:
        """Return the rows that a statement selects. Impressions are written before."""
        runtime = runtime_of(self.tools.client)
        runtime.impressions.flush()
        with runtime.database.read() as connection:
            return [tuple(row) for row in connection.exec_driver_sql(statement)]

    def logged(self, start: str) -> list[str]:
        """Return the logged queries with this start, oldest first. An earlier visit may log after its end."""
        texts = [text for (text,) in self.stored("SELECT text FROM queries ORDER BY query_id")]
        return [text for text in texts if text.startswith(start)]


@contextmanager
def open_site(data: Path) -> Iterator[Site]:
    """Yield a site of twelve tools on this directory: four of each topic, named by topic and number."""
    with opened(data) as client, served(client) as address, chromium() as browser:
        tools = create(client, "tools", filterable=["topic", "year"])
        tools.add(*(tool(topic, number) for topic in TOPICS for number in range(4)))
        with session(browser) as flowing, session(browser) as stopped:
            stop_clock(stopped)
            yield Site(address, tools, flowing, stopped)


def tool(topic: str, number: int) -> dict[str, Any]:
    """Return a document. The tool with the number 0 has no address."""
    return {
        "id": f"{topic}-{number}",
        "title": f"{topic} tool {number}",
        "text": f"A {topic} tool that copies folders, number {number}",
        "url": f"https://tools.example/{number}" if number else None,
        "metadata": {"topic": topic, "year": 2020 + number},
    }
