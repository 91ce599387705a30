"""Imports over HTTP: arrays, CSV, gzip, mapped fields, unchanged documents; parameters survive a restart."""

import asyncio
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from fastapi.testclient import TestClient

from index.errors import Canceled
from service.documents import compression, imports, spooling
from service.documents.mapping import FieldMapping
from service.documents.reading import RecordFormat
from tests.service.client import (
    DEADLINE_SECONDS,
    DEFAULT,
    SECRET,
    CollectionClient,
    good,
    ndjson,
    opened,
    problem,
    runtime_of,
)

SHOES = [
    {"sku": 1, "name": "Red shoe", "body": "a red shoe", "price": 12.5, "brand": None, "size": {"eu": 42}},
    {"sku": 2, "name": "Blue shoe", "body": "a blue shoe", "tags": ["blue", 7], "added": "2024-01-02"},
]


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[CollectionClient]:
    with opened(tmp_path / "data") as client:
        yield CollectionClient(client)


def imported(shop: CollectionClient, content: Any, kind: str = "application/x-ndjson", **more: Any) -> Any:
    """Import content; return the result of the task. `encoding` is the Content-Encoding, the rest are parameters."""
    headers = {"Content-Type": kind} | ({"Content-Encoding": more.pop("encoding")} if "encoding" in more else {})
    answer = shop.client.post(f"{shop.path}/documents/import", content=content, headers=headers, params=more)
    assert answer.status_code == 202, answer.text
    task = shop.ended_task(answer.json())
    assert task["status"] == "succeeded", task
    assert runtime_of(shop.client).jobs.wait(task["id"], DEADLINE_SECONDS)  # it deletes the body after its end
    return task["result"]


def refused(shop: CollectionClient, content: Any, status: int, code: str, **more: Any) -> dict[str, Any]:
    """Import content that is refused; return the problem. Nothing stays on the disk."""
    answer = shop.client.post(f"{DEFAULT}/documents/import", content=content, **more)
    assert list(runtime_of(shop.client).imports.iterdir()) == []
    return problem(answer, status, code)


@pytest.mark.parametrize("kind", ["application/json", "application/x-ndjson", "application/octet-stream", ""])
def test_an_array_and_lines_are_told_apart_by_their_first_character(shop: CollectionClient, kind: str) -> None:
    assert imported(shop, json.dumps(SHOES), kind, mapping="lenient")["succeeded"] == 2
    assert imported(shop, ndjson(SHOES), kind, mapping="lenient")["unchanged"] == 2
    assert shop.get("documents/2") == {
        "id": "2",
        "title": "Blue shoe",
        "text": "a blue shoe",
        "url": None,
        "metadata": {"tags": ["blue", 7], "added": "2024-01-02", "added_epoch": 1704153600},
    }


def test_strict_is_the_default_and_says_what_it_wanted(shop: CollectionClient) -> None:
    result = imported(shop, json.dumps([{"id": 7, "text": "x"}, {"id": "a", "text": "x", "metadata": {"n": None}}]))
    assert [(one["item"], one["field"], one["detail"]) for one in result["errors"]] == [
        (1, "id", "id: must be a string"),
        (2, "metadata.n", "metadata.n: must be a string, a number, true, false or a list of these"),
    ]


def test_named_fields_are_taken_in_both_modes(shop: CollectionClient) -> None:
    rows = [{"key": "a", "head": "T", "one": "first", "two": "second", "at": "http://a"}]
    named = {"id_field": "key", "title_field": "head", "text_field": "one, two", "url_field": "at"}
    for mapping in ("strict", "lenient"):
        assert imported(shop, ndjson(rows), mapping=mapping, **named)["succeeded"] == 1
    stored = shop.get("documents/a")
    assert stored | {"metadata": {}} == stored
    assert (stored["title"], stored["text"], stored["url"]) == ("T", "first\n\nsecond", "http://a")


@pytest.mark.parametrize("mapping", ["strict", "lenient"])
def test_named_fields_of_inner_objects_are_taken_in_both_modes(shop: CollectionClient, mapping: str) -> None:
    rows = [{"product": {"id": mapping, "about": {"text": "x"}}}]
    named = {"id_field": "product.id", "text_field": "product.about.text"}
    assert imported(shop, ndjson(rows), mapping=mapping, **named)["errors"] == []
    assert (shop.get(f"documents/{mapping}")["text"], shop.get(f"documents/{mapping}")["metadata"]) == ("x", {})


@pytest.mark.parametrize("mapping", ["strict", "lenient"])
def test_an_integer_that_would_be_rounded_is_refused(shop: CollectionClient, mapping: str) -> None:
    wide = {"id": "wide", "text": "x", "metadata": {"n": 2**63}}
    table = f"id,text,n:number\nwide,x,{2**63}\nnarrow,x,{2**63 - 1}\n"
    for result in (
        imported(shop, ndjson([wide, wide | {"id": "narrow", "metadata": {"n": 2**63 - 1}}]), mapping=mapping),
        imported(shop, table, "text/csv", mapping=mapping),
    ):
        (error,) = result["errors"]
        assert (error["field"], error["detail"]) == ("metadata.n", "metadata.n: must be at most 9223372036854775807")
        assert result["succeeded"] == 1
    assert shop.get("documents/narrow")["metadata"] == {"n": 2**63 - 1}


def test_csv_becomes_documents_in_both_modes(shop: CollectionClient) -> None:
    table = "id;text;price:number;brand\na;x;2.5;Acme\nb;y\n"
    result = imported(shop, table, "text/csv; charset=utf-8")
    assert [(one["line"], one["code"]) for one in result["errors"]] == [(3, "invalid_csv")]
    assert shop.get("documents/a")["metadata"] == {"price": 2.5, "brand": "Acme"}
    table = "id;text;n:number\n1;hello;3\n2;;4\n"
    result = imported(shop, table, "text/csv")
    found = [(one["line"], one["code"], one["detail"], one["field"]) for one in result["errors"]]
    assert (result["succeeded"], found) == (1, [(3, "invalid_document", "text: is required", "text")])
    assert imported(shop, "Handle,Title,Body\na-1,Shoe,red\n", "text/csv", mapping="lenient")["succeeded"] == 1
    refused(shop, "Handle,Title\na,b\n", 422, "invalid_csv", headers={"Content-Type": "text/csv"})


@pytest.mark.parametrize("encoding", [{}, {"encoding": "gzip"}])
@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (ndjson([{"id": "a", "text": "x"}]), "application/x-ndjson"),
        (b'[{"id": "a", "text": "x"}]', "application/json"),
        (b"id,text\na,x\n", "text/csv"),
        ('[{"id": "a", "text": "x"}]'.encode("utf-16"), "application/json"),
    ],
)
def test_every_format_may_be_gzipped_and_says_so_or_not(
    shop: CollectionClient, content: bytes, kind: str, encoding: dict[str, str]
) -> None:
    parts = gzip.compress(content) + gzip.compress(b"")  # gzip may have several members
    blocks = (parts[at : at + 1] for at in range(len(parts)))
    assert imported(shop, blocks, kind, **encoding)["succeeded"] == 1


def test_a_body_that_decompresses_to_too_much_is_refused(
    shop: CollectionClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compression, "FREE_BYTES", 1000)
    body = refused(shop, gzip.compress(b" " * 1_000_000), 413, "payload_too_large")
    assert "200 times" in body["detail"]


def test_a_body_that_is_not_the_gzip_it_is_said_to_be_is_refused(shop: CollectionClient) -> None:
    whole = gzip.compress(b'{"id": "a", "text": "' + SECRET.encode() + b'"}')
    refused(shop, whole[:-9], 400, "invalid_compression")
    refused(shop, whole[:5] + b"\0" * 40, 400, "invalid_compression")
    refused(shop, b"{}", 400, "invalid_compression", headers={"Content-Encoding": "gzip"})
    refused(shop, b"{}", 415, "unsupported_encoding", headers={"Content-Encoding": "br"})


def test_an_unknown_parameter_is_refused(shop: CollectionClient) -> None:
    for query in ("idfield=a", "mapping=loose", "id_field="):
        problem(shop.client.post(f"{DEFAULT}/documents/import?{query}", content=b"{}"), 422, "invalid_request")


def test_a_document_with_the_same_content_is_not_encoded_again(shop: CollectionClient) -> None:
    rows = [{"id": str(n), "text": f"text {n}", "metadata": {"n": n}} for n in range(3)]
    assert (imported(shop, ndjson(rows))["passages"], shop.get()["generation"]) == (3, 1)
    changed = [*rows[:2], rows[2] | {"metadata": {"n": True}}]
    again = imported(shop, ndjson(changed))
    assert (again["succeeded"], again["unchanged"]) == (3, 2)
    assert (again["passages"], again["passages_kept"]) == (0, 1)
    assert shop.get("documents/2")["metadata"] == {"n": True}
    answer = shop.client.put(f"{shop.path}/documents/0", json=rows[0])
    assert (answer.status_code, shop.get()["generation"]) == (200, 2)
    assert shop.add(rows[0], rows[1] | {"text": "other"})["unchanged"] == 1
    assert shop.ids("other", mode="words") == ["1"]


def test_notes_tell_what_a_reader_would_not_expect(shop: CollectionClient) -> None:
    result = imported(shop, ndjson([{"body": "x"}, {"body": "y"}, {"id": "a"}]), mapping="lenient")
    assert (result["succeeded"], result["failed"]) == (2, 1)
    assert result["notes"] == {"without an id: the id is a hash of the content": 2}
    assert imported(shop, ndjson([{"body": "x"}]), mapping="lenient")["unchanged"] == 1


def test_the_parameters_of_an_import_survive_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = []
    with opened(tmp_path / "data") as client, monkeypatch.context() as patched:
        patched.setattr(imports, "start_import", lambda *given: started.append(given) or _enqueued(client))
        table = gzip.compress(b"key|body\n1|one\n2|two\n")
        given = {"mapping": "lenient", "id_field": "key"}
        headers = {"Content-Type": "text/csv"}
        answer = client.post(f"{DEFAULT}/documents/import", content=table, params=given, headers=headers)
        assert answer.status_code == 202
    (path,) = (tmp_path / "data" / "imports").glob("*.ndjson")
    path.with_suffix(spooling.TAKEN).write_bytes(b"1")
    with opened(tmp_path / "data") as client:
        shelf = CollectionClient(client)
        shelf.ended_task(good(client.get(f"/v1/tasks/{_newest(client)}")))
        assert runtime_of(client).jobs.wait(_newest(client), DEADLINE_SECONDS)
        assert [one["id"] for one in shelf.get("documents")["documents"]] == ["2"]
        assert list((tmp_path / "data" / "imports").iterdir()) == []


def _enqueued(client: TestClient) -> str:
    runtime = runtime_of(client)
    with runtime.database.write() as connection:
        return runtime.jobs.enqueued(connection, "documents_import", "default")


def _newest(client: TestClient) -> str:
    from service.runtime.task_repository import task_statuses

    with runtime_of(client).database.read() as connection:
        return list(task_statuses(connection))[-1]


def test_an_import_without_parameters_beside_it_has_strict_lines(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as client:
        number = CollectionClient(client).id
    folder = tmp_path / "data" / "imports"
    (folder / f"{number}-earlier.ndjson").write_bytes(orjson.dumps({"id": "a", "text": "x"}))
    with opened(tmp_path / "data") as client:
        shelf = CollectionClient(client)
        shelf.ended_task(good(client.get(f"/v1/tasks/{_newest(client)}")))
        assert shelf.get("documents/a")["text"] == "x"


def test_a_compressed_body_is_read_up_to_its_ratio(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "FREE_BYTES", 1000)
    compression.require_ratio(10, compression.MAX_RATIO * 10)
    compression.require_ratio(1, 1000)
    for read, made in ((10, compression.MAX_RATIO * 10 + 1), (1, 1001)):
        with pytest.raises(compression.CompressionBomb):
            compression.require_ratio(read, made)


class Canceling:
    """The progress of a job that is canceled while its body is counted."""

    def __init__(self) -> None:
        self._checks = 0

    def check(self) -> None:
        self._checks += 1
        if self._checks > 3:
            raise Canceled("canceled")

    def expect(self, total: int) -> None:
        pytest.fail(f"{total} records were counted to the end")


def test_an_import_of_blank_lines_is_canceled_while_they_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "body.ndjson"
    path.write_bytes(gzip.compress(b"\n" * 1_000_000))
    body = spooling.Spooled(path, RecordFormat.NDJSON, FieldMapping())
    nothing: Any = None
    canceling: Any = Canceling()
    with pytest.raises(Canceled):
        imports._import(nothing, nothing, body, canceling, [])


def test_the_records_of_json_are_not_read_before_the_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unread(*_: Any, **__: Any) -> Any:
        yield pytest.fail("a record is read")

    async def parts() -> Any:
        yield gzip.compress(b"\n" * 1000)

    monkeypatch.setattr(spooling, "read_records", unread)
    kept = asyncio.run(spooling.spool(tmp_path, "1", parts(), FieldMapping(), "application/x-ndjson", ""))
    assert kept.path.is_file()
