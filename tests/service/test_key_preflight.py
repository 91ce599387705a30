"""A page of another origin searches with its key, in a browser; without its origin in the list it cannot."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.service.authorised import Keys
from tests.service.browser import chromium, needs_chromium, served, session
from tests.service.client import create, opened

pytestmark = needs_chromium
SEARCH = """async ([address, key]) => {
  const headers = { "Content-Type": "application/json", Authorization: `Bearer ${key}` };
  const request = { method: "POST", headers, body: '{"q": "kettle"}' };
  try {
    const answer = await fetch(`${address}/v1/collections/shop/search`, request);
    return [answer.status, (await answer.json()).code ?? "hits"];
  } catch (error) {
    return [0, error.name];
  }
}"""


@dataclass(frozen=True)
class Shop:
    """A page of another origin, the address of the service, and the keys of the service."""

    page: Page
    origin: str
    address: str
    keys: Keys

    def search(self, **key: Any) -> Any:
        """Return status and code of a search that the page sends with a new key; status 0 if the browser refuses."""
        return self.page.evaluate(SEARCH, [self.address, self.keys.make("search", **key)["key"]])


class ShopPage(BaseHTTPRequestHandler):
    """Answers every request with a page."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<h1>Shop</h1>")

    def log_message(self, *_: Any) -> None:
        """Write nothing."""


@contextmanager
def page_of_a_shop() -> Iterator[str]:
    """Yield the origin of another server."""
    with ThreadingHTTPServer(("127.0.0.1", 0), ShopPage) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with opened(tmp_path_factory.mktemp("shop") / "data") as client, served(client) as address, chromium() as browser:
        create(client, "shop")
        keys = Keys.first(client)
        with session(browser) as context, page_of_a_shop() as origin:
            page = context.new_page()
            page.goto(origin)
            yield Shop(page, origin, address, keys)


def test_a_page_searches_with_the_key_of_its_origin(shop: Shop) -> None:
    assert shop.search(origins=[shop.origin]) == [200, "hits"]


def test_a_page_reads_why_its_key_is_refused(shop: Shop) -> None:
    shop.search(origins=[shop.origin])  # the service knows the origin
    assert shop.page.evaluate(SEARCH, [shop.address, "wrong"]) == [401, "unauthorized"]


def test_a_page_cannot_read_the_answer_to_the_key_of_a_server(shop: Shop) -> None:
    assert shop.search() == [0, "TypeError"]
