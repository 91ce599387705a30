"""An export of an earlier version is imported; what it lacks gets the value that an upgrade gives."""

import json
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from sqlalchemy import event

from service.exports.query_keys_repository import renew_query_keys
from service.exports.record_repository import ADDED, OLDEST_REVISION, TYPES
from service.storage.checked_rows import is_sound, stored_rows
from service.storage.database import NEWEST_REVISION
from tests.service.client import CollectionClient, good, opened, runtime_of
from tests.service.test_exports import imported, records_of, sealed

AT = "2026-09-20T10:00:00.000Z"
FIRST = {
    "collection": "name settings encoder fingerprint dim created_at",
    "alias": "name collection created_at",
    "rule": "id body vector created_at",
    "document": "row id title text url metadata created_at",
    "value": "document_row vector",
    "pending_document": "id body created_at",
    "event": "id action_name grade query_id query_text query_key document_id position client_id session_id timestamp"
    " body created_at",
    "judgment": "id query_text query_key document_id rating rater created_at",
    "key": "document_row kind vector weight span_start span_end query_key event_id judgment_id",
    "impression": "query_id text query_key client_id session_id request shown null_weight model_version generation"
    " created_at",
    "training_run": "id status seed promote budget_seconds click_reading resumptions cancel_requested progress_done"
    " progress_total steps data report decision model_version error created_at finished_at",
    "model": "version lineage report decision created_at",
    "model_alias": "name version",
    "model_alias_change": "name from_version to_version reason rollback created_at",
}
"""Type -> the columns of a record in the first export."""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with opened(tmp_path_factory.mktemp("imports") / "data") as client:
        yield client


def earlier(client: TestClient, name: str, schema: str = OLDEST_REVISION) -> list[dict[str, Any]]:
    """Return the lines of an export with one document and one past query, as the first version wrote them."""
    encoder = runtime_of(client).encoder
    unit = b64encode(np.eye(1, encoder.dim, dtype="<f4").tobytes()).decode()
    settings = {"filterable": ["year"], "language": "english", "retention_days": None, "keys": ["title", "passage"]}
    origin = {"encoder": "hashing", "fingerprint": encoder.fingerprint, "dim": encoder.dim}
    key = {"type": "key", "collection": name, "document_row": 7, "vector": unit, "weight": 1.0}
    key |= {"span_start": 0, "span_end": 11, "query_key": None, "event_id": None, "judgment_id": None}
    model = {"version": 0, "lineage": {"kind": "initial"}, "report": {}, "decision": {}, "files": {}}
    return [
        {"type": "softseek_export", "format": 1, "softseek": "0.1.0", "schema": schema, "made_at": AT, "encoder": {}},
        {"type": "collection", "name": name, "settings": settings, **origin, "created_at": AT},
        {"type": "document", "collection": name, "row": 7, "id": "wire", "title": None, "text": "copper wire"}
        | {"url": None, "metadata": {"year": 1991}, "created_at": AT},
        {"type": "value", "document_row": 7, "vector": unit},
        {"type": "judgment", "collection": name, "id": 3, "query_text": "red metal", "query_key": "red metal"}
        | {"document_id": "wire", "rating": 3, "rater": "default", "created_at": AT},
        key | {"kind": 2},
        key | {"kind": 3, "query_key": "red metal", "judgment_id": 3, "weight": 0.75},
        {"type": "model", "collection": name, **model, "created_at": AT},
        {"type": "model_alias", "collection": name, "name": "champion", "version": 0},
    ]


@pytest.mark.parametrize("schema", ["0006", "0007"])
def test_an_export_of_an_earlier_schema_is_imported(client: TestClient, schema: str) -> None:
    name = f"metals-{schema}"
    done = imported(client, sealed(earlier(client, name, schema)))
    assert done["status"] == "succeeded", done
    assert done["result"] == {"records": 8, "collections": [name]}
    metals = CollectionClient(client, name)
    assert metals.ids("copper") == ["wire"]
    assert metals.ids("red metal") == ["wire"]
    assert good(client.get(f"{metals.path}/documents/wire"))["metadata"] == {"year": 1991}
    header, *records = records_of(client.get("/v1/export").content)
    assert header["schema"] == NEWEST_REVISION
    keys = [one for one in records if one["type"] == "key" and one["collection"] == name]
    assert [(one["kind"], one["confirmed_on"]) for one in keys] == [(2, None), (3, None)]


def test_feedback_of_an_earlier_export_gets_the_query_keys_of_this_release(client: TestClient) -> None:
    header, *records = earlier(client, "renewed")
    judgment = next(one for one in records if one["type"] == "judgment")
    key = next(one for one in records if one.get("judgment_id"))
    others = {"query_text": "İron", "query_key": "i\u0307ron"}
    at = records.index(judgment) + 1
    records[at:at] = [judgment | others | {"id": 4}, judgment | {"id": 5, "query_text": "red\u00ad metal"}
                      | {"query_key": "red\u00ad metal", "rating": 1}]  # fmt: skip
    at = records.index(key) + 1
    records[at:at] = [key | {"query_key": others["query_key"], "judgment_id": 4}]
    records[at:at] = [key | {"query_key": "red\u00ad metal", "judgment_id": 5, "weight": 0.25}]
    done = imported(client, sealed([header, *records]))
    assert done["status"] == "succeeded", done
    exported = [one for one in records_of(client.get("/v1/export").content) if one.get("collection") == "renewed"]
    found = {kind: sorted(one["query_key"] for one in exported if one["type"] == kind and one["query_key"])
             for kind in ("judgment", "key")}  # fmt: skip
    assert found == {"judgment": ["iron", "red metal"], "key": ["iron", "red metal"]}
    assert [one["rating"] for one in exported if one["type"] == "judgment" and one["query_key"] == "red metal"] == [1]
    with runtime_of(client).database.read() as connection:
        for table in ("judgments", "keys"):
            assert all(is_sound(table, row) for row in stored_rows(connection, table))


@pytest.mark.parametrize(("schema", "tables"), [("0014", 4), ("0015", 0), (NEWEST_REVISION, 0)])
def test_query_keys_are_renewed_in_earlier_exports_only_and_keys_of_documents_are_not_read(
    client: TestClient, schema: str, tables: int
) -> None:
    statements: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_others: Any) -> None:
        statements.append(statement)

    with runtime_of(client).database.write() as connection:
        event.listen(connection, "before_cursor_execute", note)
        renew_query_keys(connection, 1, schema)
        event.remove(connection, "before_cursor_execute", note)
    read = [one for one in statements if one.startswith("SELECT")]
    assert len(read) == tables
    assert all("kind = " in one for one in read if "FROM keys" in one)


def refusal(client: TestClient, records: list[dict[str, Any]]) -> str:
    """Return why an import is refused."""
    done = imported(client, sealed(records))
    assert (done["status"], done["error"]["code"]) == ("failed", "invalid_export"), done
    return str(done["error"]["detail"])


def test_an_export_has_the_members_of_its_schema(client: TestClient) -> None:
    records = earlier(client, "copper")
    later = [one | {"confirmed_on": None} if one["type"] == "key" else one for one in records]
    assert "not documented" in refusal(client, later)
    assert "lacks confirmed_on" in refusal(client, earlier(client, "copper", "0008"))
    assert imported(client, sealed([earlier(client, "copper", "0008")[0], *later[1:]]))["status"] == "succeeded"


@pytest.mark.parametrize("change", [{"schema": "9999"}, {"format": 2}, {"schema": "9999", "format": 2}], ids=json.dumps)
def test_a_newer_export_is_refused_as_newer(client: TestClient, change: dict[str, Any]) -> None:
    header, *records = earlier(client, "newer")
    assert "a newer version of Softseek made the export" in refusal(client, [header | change, *records])


@pytest.mark.parametrize(
    "change", [{"schema": "0005"}, {"format": 0}, {"schema": None}, {"schema": "6"}, {"format": "1"}], ids=json.dumps
)
def test_a_header_of_no_version_is_refused(client: TestClient, change: dict[str, Any]) -> None:
    header, *records = earlier(client, "older")
    detail = refusal(client, [header | change, *records])
    assert detail.startswith("line 1: ")
    assert "newer" not in detail


def test_a_column_that_a_later_schema_adds_has_a_value_for_earlier_exports() -> None:
    assert FIRST.keys() == TYPES.keys()
    for name, kind in TYPES.items():
        assert set(kind.columns) == set(FIRST[name].split()) | ADDED.get(name, {}).keys(), name
        for column, (since, _) in ADDED.get(name, {}).items():
            assert OLDEST_REVISION < since <= NEWEST_REVISION, column


def test_a_past_query_whose_weight_has_no_grade_is_refused(client: TestClient) -> None:
    records = [one | {"weight": 1.0} if one.get("judgment_id") else one for one in earlier(client, "weighty")]
    assert "cannot be used" in refusal(client, records)
