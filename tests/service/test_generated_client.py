"""A client that openapi-python-client generates from the OpenAPI schema works against the service."""

import gzip
import importlib
import io
import json
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.service.client import DEADLINE_SECONDS, ENDED, ndjson, opened

PACKAGE = "generated_softseek_client"
openapi_python_client = pytest.importorskip("openapi_python_client")


class Generated:
    """The modules of the generated package, imported by name."""

    def __init__(self, client: Any) -> None:
        self.client = client

    def call(self, operation: str, *arguments: Any, **more: Any) -> Any:
        """Return the detailed answer of an operation, given as `tag.operation`."""
        return self._module(f"api.{operation}").sync_detailed(*arguments, client=self.client, **more)

    def model(self, name: str, **fields: Any) -> Any:
        """Return a request body from its JSON fields."""
        return getattr(self._module("models"), name).from_dict(fields)

    def file(self, content: bytes) -> Any:
        """Return a file as a request body."""
        return self._module("types").File(payload=io.BytesIO(content))

    def ended(self, task: Any) -> Any:
        """Return a task when it has ended."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while task.status not in ENDED and time.monotonic() < deadline:
            time.sleep(0.02)
            task = self.call("tasks.get_task", task.id).parsed
        return task

    def is_a(self, value: Any, name: str) -> bool:
        """Return whether a value is of a generated model."""
        return isinstance(value, getattr(self._module("models"), name))

    def _module(self, name: str) -> ModuleType:
        return importlib.import_module(f"{PACKAGE}.{name}")


def generate(schema: dict[str, Any], folder: Path) -> list[Any]:
    """Generate the package in a folder; return the warnings of the generator."""
    from openapi_python_client.config import Config, ConfigFile, MetaType

    document = folder / "openapi.json"
    document.write_text(json.dumps(schema), encoding="utf-8")
    config = Config.from_sources(
        ConfigFile(post_hooks=[]),
        MetaType.NONE,
        document_source=document,
        file_encoding="utf-8",
        overwrite=False,
        output_path=folder / PACKAGE,
    )
    return list(openapi_python_client.generate(config=config))


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Generated]:
    folder = tmp_path_factory.mktemp("generated")
    with opened(folder / "data") as client:
        warnings = generate(client.get("/openapi.json").json(), folder)
        # the generator has neither streamed lines nor tables nor lists of anything beside a file
        unknown = ("x-ndjson", "text/csv", "type array must have items")
        assert all(any(kind in warning.detail for kind in unknown) for warning in warnings)
        sys.path.insert(0, str(folder))
        try:
            made = importlib.import_module(f"{PACKAGE}.client").Client(base_url="http://testserver")
            made.set_httpx_client(client)
            yield Generated(made)
        finally:
            sys.path.remove(str(folder))
            for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
                del sys.modules[name]


def test_a_generated_client_creates_fills_and_searches_a_collection(api: Generated) -> None:
    settings = api.model("CollectionIn", filterable=["year"])
    created = api.call("collections.put_collection", "books", body=settings)
    assert (created.status_code, created.parsed.name) == (201, "books")
    assert created.parsed.settings.filterable == ["year"]

    body = api.model("DocumentBody", text="how to copy a folder", metadata={"year": 2020})
    assert api.call("documents.put_document", "books", "doc-1", body=body).parsed.id == "doc-1"
    lines = ndjson([{"id": f"line-{n}", "text": f"line {n} about whales"} for n in range(3)])
    task = api.call("documents.import_documents", "books", body=api.file(lines))
    assert task.status_code == 202
    imported = api.ended(task.parsed)
    assert (imported.status, imported.result["succeeded"]) == ("succeeded", 3)
    batch = api.model("DocumentBatch", documents=[{"id": "doc-2", "text": "how to paint a fence"}])
    assert api.call("documents.post_documents", "books", body=batch, wait=120.0).parsed.succeeded == 1

    found = api.call("search.search", "books", body=api.model("SearchIn", q="copy a folder"))
    assert found.status_code == 200
    assert api.is_a(found.parsed, "SearchAnswer")
    assert found.parsed.hits[0].id == "doc-1"
    assert found.parsed.hits[0].metadata["year"] == 2020
    assert 0 < found.parsed.attention.null_weight < 1

    click = {
        "action_name": "click",
        "query_id": found.parsed.query_id,
        "timestamp": datetime.now(UTC).isoformat(),
        "event_attributes": {"object": {"object_id": "doc-1"}, "position": {"ordinal": 1}},
    }
    sent = api.call("feedback.post_events", "books", body=api.model("EventIn", **click))
    assert (sent.parsed.accepted, sent.parsed.rejected) == (1, [])
    judgments = [{"query": "copy a folder", "document_id": "doc-1", "rating": 4}]
    judged = api.call("feedback.post_judgments", "books", body=api.model("JudgmentBatch", judgments=judgments))
    assert judged.parsed.accepted == 1
    assert api.call("collections.get_collection", "books").parsed.counts.events == 1


@pytest.mark.parametrize("compressed", [False, True])
def test_a_generated_client_imports_a_file_with_named_fields(api: Generated, compressed: bool) -> None:
    content = ndjson([{"sku": f"gear-{compressed}", "name": "Gear", "info": "a toothed wheel"}, {"sku": ""}])
    body = api.file(gzip.compress(content) if compressed else content)
    names = {"id_field": "sku", "title_field": "name", "text_field": "info"}
    task = api.call("documents.import_documents", "default", body=body, **names).parsed
    result = api.ended(task).result
    assert (result["succeeded"], result["failed"], result["errors"][0]["index"]) == (1, 1, 1)
    assert api.call("documents.get_document", "default", f"gear-{compressed}").parsed.title == "Gear"


def test_a_generated_client_changes_a_document(api: Generated) -> None:
    body = api.model("DocumentBody", text="about ships", title="Ships")
    api.call("documents.put_document", "default", "ship", body=body)
    changed = api.call("documents.patch_document", "default", "ship", body=api.model("DocumentPatch", title=None))
    assert (changed.parsed.title, changed.parsed.text) == (None, "about ships")


def test_a_generated_client_reads_a_problem(api: Generated) -> None:
    refused = api.call("search.search", "default", body=api.model("SearchIn", q="a", limit=0))
    assert refused.status_code == 422
    assert api.is_a(refused.parsed, "Problem")
    assert (refused.parsed.code, refused.parsed.errors[0].pointer) == ("invalid_request", "/limit")
    missing = api.call("collections.get_collection", "nowhere")
    assert (missing.status_code, missing.parsed.code) == (404, "collection_not_found")
