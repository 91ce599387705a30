"""The search page in a browser: what its scripts show and log. Skipped where there is no Chromium."""

import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import uvicorn
from fastapi.testclient import TestClient

from service.app import create_app
from service.runtime.runtime import Runtime
from service.settings import Settings
from tests.service.client import CollectionClient, create

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or ""
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="needs Chromium")
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --virtual-time-budget=6000"
).split()
TOPICS = ("shell", "python", "git")


@dataclass(frozen=True)
class Site:
    """A server of a collection of tools, and a client in the same process."""

    address: str
    tools: CollectionClient
    profile: Path

    def page(self, **parameters: Any) -> str:
        """Return the document of the search page after its scripts ran for six seconds of the browser's own clock."""
        url = f"{self.address}/?{urlencode({'c': self.tools.name} | parameters, doseq=True)}"
        command = [CHROMIUM, *FLAGS, f"--user-data-dir={self.profile}", "--dump-dom", url]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
        return unescape(done.stdout)

    def logged(self) -> list[str]:
        """Return the texts of the logged searches, oldest first."""
        runtime: Runtime = self.tools.client.app.state.runtime  # type: ignore[attr-defined]
        runtime.impressions.flush()
        with runtime.database.read() as connection:
            return list(connection.exec_driver_sql("SELECT text FROM queries ORDER BY query_id").scalars())


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    settings = Settings(encoder="hashing", data=folder / "data", log_level="warning")
    runtime = Runtime.open(settings)
    app = create_app(settings, runtime)
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_config=None))
    thread = threading.Thread(target=server.run)
    with TestClient(app) as client:
        tools = create(client, "tools", filterable=["topic", "year"])
        tools.add(*(tool(topic, number) for topic in TOPICS for number in range(4)))
        thread.start()
        while not server.started and thread.is_alive():
            thread.join(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield Site(f"http://127.0.0.1:{port}", tools, folder / "profile")
        server.should_exit = True
        thread.join()
    runtime.close()


def tool(topic: str, number: int) -> dict[str, Any]:
    return {
        "id": f"{topic}-{number}",
        "title": f"{topic} tool {number}",
        "text": f"A {topic} tool that copies folders, number {number}",
        "url": f"https://tools.example/{number}" if number else None,
        "metadata": {"topic": topic, "year": 2020 + number},
    }


def titles(page: str) -> list[str]:
    found = re.findall(r"<h2>(.*?)</h2>", page, re.DOTALL)
    return [re.sub(r"<[^>]+>", "", title).strip() for title in found if title]


def test_hits_have_snippets_and_a_misspelled_word_is_corrected(site: Site) -> None:
    page = site.page(q="pyhton copy")
    assert titles(page)[0].startswith("python tool")
    assert "Results for <b>python</b>" in page
    assert "search only for pyhton</button>" in page
    assert re.search(r'<p class="text">A <mark>python</mark> tool that <mark>copies</mark> folders', page)


def test_a_page_at_rest_has_logged_its_search_once(site: Site) -> None:
    before = site.logged()
    site.page(q="a tool for git")
    assert site.logged() == [*before, "a tool for git"]


def test_filters_of_the_address_apply_and_the_other_values_can_still_be_chosen(site: Site) -> None:
    page = site.page(q="copy folders", **{"is.topic": "git", "min.year": "2022"})
    assert sorted(titles(page)) == ["git tool 2", "git tool 3"]
    counts = re.findall(r"<span>(\w+)</span><span class=\"count\">(\d+)</span>", page)
    assert dict(counts) == dict.fromkeys(TOPICS, "2")
    assert 'placeholder="2020"' in page


def test_sorting_in_the_address_orders_the_hits(site: Site) -> None:
    page = site.page(q="shell tool", sort="year:desc", **{"is.topic": "shell"})
    assert titles(page) == [f"shell tool {number}" for number in (3, 2, 1, 0)]


def test_operators_are_named_and_can_be_read_as_words(site: Site) -> None:
    page = site.page(q='"python tool" -git')
    assert "Only documents with “python tool”, without “git”" in page
    assert all(title.startswith("python") for title in titles(page))
    literal = site.page(q='"python tool" -git', operators="off")
    assert "Operators are read as words" in literal
    assert any(title.startswith("git") for title in titles(literal))


def test_a_pinned_hit_is_marked(site: Site) -> None:
    rule = {"query": {"exact": "best tool"}, "pin": [{"id": "git-2", "position": 2}]}
    site.tools.client.put(f"{site.tools.path}/rules/best", json=rule)
    assert titles(site.page(q="best tool"))[1] == "git tool 2 pinned"


def test_a_failed_search_shows_its_problem(site: Site) -> None:
    page = site.page(q="tool", model="7")
    assert re.search(r'<p id="error"[^>]*role="alert">there is no such model', page)
