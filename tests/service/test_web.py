"""The web pages as the server sends them. Other files test_web_* run their scripts."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from index.learning.config import FitConfig
from service.http import problems
from service.http.routers import add_routes
from service.runtime.collection_settings import CollectionSettings
from service.runtime.runtime import Runtime
from service.settings import load_settings
from service.training.schemas import ClickReading
from service.web import routes
from tests.service.client import opened

HERE = Path(routes.__file__).parent
STATIC = sorted(path.name for path in (HERE / "static").iterdir())
FOREIGN = re.compile(r"""(?:https?:)?//(?!www\.w3\.org/(?:2000|1999)/)[a-z0-9-]+\.[a-z]""")
"""An address on another host, except the names of XML namespaces."""

every_page = pytest.mark.parametrize("page", ["/", "/queries", "/learning"])
every_static_file = pytest.mark.parametrize("name", STATIC)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """Only the pages, on an empty data directory with a second collection."""
    runtime = Runtime.open(load_settings(data=tmp_path_factory.mktemp("data"), encoder="hashing"))
    runtime.create_collection("zoo", CollectionSettings())
    app = FastAPI(docs_url=None, redoc_url=None)
    app.state.runtime = runtime
    problems.install(app)
    add_routes(app, routes.router)
    yield TestClient(app)
    runtime.close()


@every_page
def test_page_names_the_collections_and_forbids_foreign_and_inline_code(client: TestClient, page: str) -> None:
    answer = client.get(page, params={"c": "zoo"})
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "<option selected>zoo</option>" in answer.text
    assert 'data-collection="zoo"' in answer.text
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'self';")
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "same-origin"


@every_page
def test_page_complies_with_its_policy(client: TestClient, page: str) -> None:
    text = client.get(page).text
    assert re.findall(r"<script[^>]*>", text) == [f'<script type="module" src="/static/{page[1:] or "search"}.js">']
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=|javascript:", text)


@every_page
def test_page_has_every_element_that_its_scripts_use(client: TestClient, page: str) -> None:
    found = set(re.findall(r'\sid="([\w-]+)"', client.get(page).text)) | {"collection", "welcome"}
    used = {
        id for name in modules(f"{page[1:] or 'search'}.js") for id in re.findall(r'\$\("([\w-]+)"\)', script(name))
    }
    assert used <= found


def script(name: str) -> str:
    return (HERE / "static" / name).read_text(encoding="utf-8")


def modules(name: str) -> set[str]:
    """Return a script and all that it imports, by name."""
    found, waiting = set(), {name}
    while waiting:
        found |= waiting
        waiting = {one for of in waiting for one in re.findall(r'from "\./([\w.]+)"', script(of))} - found
    return found


def test_every_script_belongs_to_a_page() -> None:
    scripts = {name for name in STATIC if name.endswith(".js")}
    assert modules("search.js") | modules("queries.js") | modules("learning.js") | modules("reference.js") == scripts


def test_every_control_of_the_search_page_has_a_label(client: TestClient) -> None:
    text = client.get("/").text
    labelled = set(re.findall(r'<label for="([\w-]+)"', text))
    inside = "".join(re.findall(r"<label.*?</label>", text, re.DOTALL))
    for tag in re.findall(r"<(?:input|select)[^>]*>", text):
        id = re.findall(r'\sid="([\w-]+)"', tag)[0]
        assert id in labelled or tag in inside, tag


@every_page
def test_page_of_an_unknown_collection_is_404_and_escapes_the_name(client: TestClient, page: str) -> None:
    answer = client.get(page, params={"c": '"><script>alert(1)</script>'})
    assert answer.status_code == 404
    assert "There is no collection with this name." in answer.text
    assert "<script>alert" not in answer.text
    assert "&lt;script&gt;alert" in answer.text


def test_learning_page_offers_the_click_interpretations_of_the_service(client: TestClient) -> None:
    (offered,) = re.findall(r'<select id="interpretation">(.*?)</select>', client.get("/learning").text, re.DOTALL)
    options = re.findall(r'<option(?: value="(\w+)")?>([^<]+)</option>', offered)
    assert [value or text for value, text in options] == list(get_args(ClickReading))
    assert dict(options)["auto"] == "mean of graded and debiased"


def test_query_in_the_address_is_escaped(client: TestClient) -> None:
    text = client.get("/", params={"q": '"><script>alert(1)</script>'}).text
    assert "<script>alert" not in text
    assert 'value="&#34;&gt;&lt;script&gt;alert(1)&lt;/script&gt;"' in text


def test_page_of_an_empty_collection_shows_how_to_import_documents(client: TestClient) -> None:
    assert "softseek ingest PATH" in client.get("/").text


@every_static_file
def test_static_file_is_served_and_revalidated(client: TestClient, name: str) -> None:
    kinds = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
    first = client.get(f"/static/{name}")
    assert first.status_code == 200
    assert first.content == (HERE / "static" / name).read_bytes()
    assert first.headers["content-type"].split(";")[0] == kinds[Path(name).suffix]
    assert first.headers["cache-control"] == "no-cache"
    assert first.headers["x-content-type-options"] == "nosniff"
    again = client.get(f"/static/{name}", headers={"If-None-Match": first.headers["etag"]})
    assert again.status_code == 304


@pytest.mark.parametrize("path", ["/static/missing.js", "/static/", "/static/%2e%2e/routes.py", "/static/../routes.py"])
def test_other_paths_are_404(client: TestClient, path: str) -> None:
    assert client.get(path).status_code == 404


def test_icon_has_the_default_path_of_browsers(client: TestClient) -> None:
    answer = client.get("/favicon.ico")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "image/svg+xml")


@pytest.mark.parametrize("path", ["/", "/queries", "/learning", "/favicon.ico", "/static/style.css"])
def test_head_returns_no_body(client: TestClient, path: str) -> None:
    answer = client.head(path)
    assert (answer.status_code, answer.content) == (200, b"")


def test_no_file_refers_to_another_host() -> None:
    files = [path for folder in ("static", "templates") for path in (HERE / folder).iterdir()]
    assert [path.name for path in files if FOREIGN.search(path.read_text())] == []


def test_scripts_never_read_html_from_data() -> None:
    scripts = "".join(path.read_text() for path in (HERE / "static").glob("*.js"))
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", scripts)


def test_pages_are_not_in_the_api_schema(client: TestClient) -> None:
    assert client.get("/openapi.json").json()["paths"] == {}


def test_the_curves_of_a_query_projection_have_a_colour_of_their_own() -> None:
    style = (HERE / "static" / "style.css").read_text(encoding="utf-8")
    richest = FitConfig.recipes[-1]
    assert f".plot g.{richest}" in style
    assert f".key.{richest}::before" in style


def test_the_api_reference_names_no_other_host(client: TestClient) -> None:
    answer = client.get("/docs")
    assert answer.status_code == 200
    assert not re.search(r"//[a-z0-9-]+\.[a-z]", answer.text)
    addresses = re.findall(r'(?:src|href)="([^"]+)"', answer.text)
    assert addresses
    assert all(address.startswith("/") for address in addresses)
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'self';")
    assert "script-src" not in policy
    assert not re.search(r"<script(?![^>]*\ssrc=)", answer.text)


def test_every_file_of_the_api_reference_is_served_by_the_service(client: TestClient) -> None:
    addresses = re.findall(r'(?:src|href)="(/(?:docs|static)/[^"]+)"', client.get("/docs").text)
    assert "/docs/swagger-ui-bundle.js" in addresses
    for address in addresses:
        assert client.get(address).status_code == 200, address


def test_the_api_reference_understands_the_version_of_the_schema(client: TestClient) -> None:
    assert client.get("/openapi.json").json()["openapi"].startswith("3.1")
    assert "isOAS31" in client.get("/docs/swagger-ui-bundle.js").text


@pytest.mark.parametrize("path", ["/docs/redoc.standalone.js", "/docs/..%2Fcore.py", "/redoc", "/docs/oauth2-redirect"])
def test_the_api_reference_has_no_other_files(tmp_path: Path, path: str) -> None:
    with opened(tmp_path / "data") as client:
        assert client.get(path).status_code == 404
