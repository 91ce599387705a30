"""Hostile texts are stored and shown as they are: in the answers, and in a real browser without effect."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.service.browser import Site, needs_chromium, open_site
from tests.service.client import CollectionClient, create, opened
from tests.service.hostile_texts import TEXTS

EACH_PAGE = 10
INJECTED = "script, img, iframe, object, embed, style, base, meta, link, marquee, math, form, template, noscript, h1"
"""Elements that no hit of the page has."""


def documents() -> list[dict[str, object]]:
    """Return a document for each text; ten share a word and a value of `batch`, so that a search shows them."""
    return [
        {"id": f"hostile-{n}", "title": text, "text": f"batch{n // EACH_PAGE}x {text}", "url": f"https://h.example/{n}",
         "metadata": {"word": text[:500], "batch": f"b{n // EACH_PAGE}"}}
        for n, text in enumerate(TEXTS)
    ]  # fmt: skip


def test_there_are_150_different_texts() -> None:
    assert len(set(TEXTS)) == 150


def test_hostile_texts_come_back_as_they_were_sent(tmp_path_factory: pytest.TempPathFactory) -> None:
    sent = documents()
    data = tmp_path_factory.mktemp("hostile") / "data"
    with opened(data) as client:
        create(client, "hostile", filterable=["word"]).add(*sent)
    with opened(data) as client:
        collection = CollectionClient(client, "hostile")
        assert collection.get("documents", limit=1000)["documents"] == sorted(sent, key=lambda one: str(one["id"]))
        found = {hit["id"]: hit for hit in collection.search("batch0x", limit=1000, mode="words", snippet=True)["hits"]}
        for one in sent[:EACH_PAGE]:
            hit = found[str(one["id"])]
            assert (hit["title"], hit["text"], hit["metadata"]) == (one["title"], one["text"], one["metadata"])
        for text in TEXTS[::3]:
            answer = client.post(f"{collection.path}/search", json={"q": text[:2048], "limit": 3, "answer": True})
            assert answer.status_code == 200, text


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with open_site(tmp_path_factory.mktemp("data")) as site:
        create(site.tools.client, "hostile", filterable=["word", "batch"]).add(*documents())
        yield Site(site.address, CollectionClient(site.tools.client, "hostile"), site.flowing, site.stopped)


@needs_chromium
def test_a_browser_shows_hostile_texts_and_runs_none(site: Site) -> None:
    shown: set[str] = set()
    with site.visit() as visit:
        for page in range(len(TEXTS) // EACH_PAGE):
            visit.open(q=f"batch{page}x", **{"is.batch": f"b{page}"})
            expect(visit.titles).to_have_count(EACH_PAGE)
            shown |= set(visit.titles.evaluate_all("all => all.map(one => one.textContent)"))
            assert visit.page.locator("#hits").locator(INJECTED).count() == 0
            assert visit.page.evaluate("window.hostile") is None
            assert visit.page.url.startswith(site.address)
    assert set(TEXTS) <= shown
