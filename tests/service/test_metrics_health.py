"""Liveness, readiness, metrics and the checks of the installation."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families

from service.http.metrics import gauge, metric_names
from service.operations.health import diagnose
from service.runtime.model_repository import insert_model
from tests.service.client import CollectionClient, create, opened, runtime_of


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with opened(tmp_path_factory.mktemp("health") / "data") as client:
        CollectionClient(client).add({"id": "a", "text": "a document"}, {"id": "b", "text": "another"})
        create(client, "empty")
        yield client


def samples(client: TestClient) -> dict[tuple[str, str], float]:
    """Return (name, values of the labels) -> value, for all metrics."""
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    families = text_string_to_metric_families(answer.text)
    return {
        (one.name, ",".join(value for name, value in sorted(one.labels.items()) if name != "le")): one.value
        for family in families
        for one in family.samples
    }


def test_a_running_service_is_alive_and_ready(client: TestClient) -> None:
    assert client.get("/livez").json() == {"status": "alive"}
    assert client.get("/readyz").json() == {"status": "ready", "degraded": {}}


def test_documents_searches_and_responses_are_counted(client: TestClient) -> None:
    before = samples(client)
    assert (before["softseek_documents", "default"], before["softseek_documents", "empty"]) == (2, 0)
    CollectionClient(client).search("document", mode="words")
    CollectionClient(client).search("document", mode="words")
    client.get("/nothing/here")
    after = samples(client)

    def grown(name: str, labels: str) -> float:
        return after[name, labels] - before.get((name, labels), 0)

    assert grown("softseek_search_seconds_count", "words") == 2
    assert grown("softseek_requests_total", "4xx") == 1
    assert grown("softseek_requests_total", "2xx") == 3  # two searches, and the first request of the metrics


def test_every_metric_has_a_help_line(client: TestClient) -> None:
    lines = client.get("/metrics").text.splitlines()
    named = {kind: {line.split()[2] for line in lines if line.startswith(f"# {kind} ")} for kind in ("HELP", "TYPE")}
    of_searchers = {name for name in metric_names() if name.startswith("softseek_searcher_")}
    assert named["HELP"] == named["TYPE"] == metric_names() - of_searchers


def test_an_alert_on_the_age_of_the_newest_snapshot_fires_without_a_snapshot(client: TestClient) -> None:
    assert samples(client)["softseek_newest_snapshot_timestamp_seconds", ""] == 0


def test_an_unknown_age_is_older_than_every_limit() -> None:
    assert b"\nsoftseek_searcher_age_seconds +Inf\n" in gauge("softseek_searcher_age_seconds", {"": None})


def test_the_schema_describes_the_items_of_a_batch(client: TestClient) -> None:
    schema = client.get("/openapi.json").json()
    known = schema["components"]["schemas"]
    assert {"DocumentIn", "EventIn", "JudgmentIn"} <= known.keys()

    def references(node: object) -> Iterator[str]:
        if isinstance(node, dict):
            if isinstance(node.get("$ref"), str):
                yield node["$ref"]
            for inner in node.values():
                yield from references(inner)
        elif isinstance(node, list):
            for inner in node:
                yield from references(inner)

    assert {one.removeprefix("#/components/schemas/") for one in references(schema)} <= known.keys()
    assert client.get("/docs").status_code == 200


def failing(client: TestClient) -> set[str]:
    return {one["name"] for one in diagnose(runtime_of(client)) if not one["ok"]}


def test_an_intact_directory_has_no_failing_check(client: TestClient) -> None:
    assert failing(client) == set()


def test_a_missing_document_and_a_damaged_model_are_found(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as client:
        CollectionClient(client).add({"id": "a", "text": "a document"})
        runtime = runtime_of(client)
        with runtime.database.write() as connection:
            connection.exec_driver_sql("DELETE FROM keys")
            connection.exec_driver_sql("DELETE FROM documents")
            insert_model(connection, CollectionClient(client).id, 1, {"lineage": {}, "report": {}, "decision": {}})
        assert failing(client) == {"index of default", "models of default"}
