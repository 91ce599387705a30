"""`softseek doctor` finds no fault after any sequence of writes."""

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from service.operations.retention import forget_old_feedback
from service.storage.checksums import TABLES
from tests.service.client import event, good, opened, runtime_of
from tests.service.test_checksums import filled
from tests.service.test_damaged_rows import failing


@pytest.mark.parametrize("seed", range(4))
def test_doctor_finds_no_fault_after_any_sequence_of_writes(tmp_path: Path, seed: int) -> None:
    generator = random.Random(seed)
    with opened(tmp_path / "data") as client:
        wood = filled(client)
        ids, queries, clients = ["oak", "elm", "ash", "fir/1"], ["old tree", "Young tree", "Ü"], ["ada", "bo", None]
        path = wood.path

        def document() -> dict[str, Any]:
            text = " ".join(generator.choices(["oak", "elm", "wood", "leaf"], k=generator.randrange(1, 9)))
            return {"id": generator.choice(ids), "text": text, "metadata": {"n": generator.randrange(3)}}

        writes = [
            lambda: wood.add(*(document() for _ in range(3))),
            lambda: client.put(f"{path}/documents/{generator.choice(ids)}", json={"text": f"put {generator.random()}"}),
            lambda: client.patch(f"{path}/documents/{generator.choice(ids)}", json={"url": f"u{generator.random()}"}),
            lambda: client.patch(f"{path}/documents/{generator.choice(ids)}", json={"title": "Title"}),
            lambda: client.delete(f"{path}/documents/{generator.choice(ids)}"),
            lambda: client.post(f"{path}/events", json=event_of(generator, ids, queries, clients)),
            lambda: wood.post("judgments", {"judgments": [judgment_of(generator, ids, queries)]}),
            lambda: wood.post("events/delete", {"client_id": "ada"}),
            lambda: wood.search(generator.choice(queries), client_id=generator.choice(clients)),
            lambda: good(client.put(f"{path}/rules/r{generator.randrange(3)}", json=rule_of(generator, ids, queries))),
            lambda: good(
                client.put(path, json={"filterable": ["n"], "retention_days": generator.choice([1, 1, None])})
            ),
            lambda: forget_old_feedback(runtime_of(client), datetime.now(UTC) + timedelta(days=3)),
            lambda: wood.ended_task(good(client.post("/v1/erasures", json={"client": "bo"}))),
            lambda: good(client.post("/v1/collections/swap", json={"a": "wood", "b": "default"})),
            lambda: good(client.put("/v1/aliases/forest", json={"collection": generator.choice(["wood", "default"])})),
            lambda: client.put(f"{path}/documents/once", json={"text": "once"}, headers={"Idempotency-Key": "once"}),
        ]
        for _ in range(40):
            generator.choice(writes)()
        wood.add(document())
        wood.add({"id": "oak", "text": "an oak again"})
        wood.act("oak", user_query="old tree")
        good(client.put(path, json={"filterable": ["n"], "retention_days": 1}))
        forget_old_feedback(runtime_of(client), datetime.now(UTC) + timedelta(days=3))
        with runtime_of(client).database.read() as connection:
            anonymous = "SELECT count(*) FROM keys WHERE confirmed_on IS NOT NULL"
            assert connection.exec_driver_sql(anonymous).scalar() > 0
        assert failing(client) == {}
        with runtime_of(client).database.read() as connection:
            for table in TABLES:
                missing = f'SELECT count(*) FROM "{table}" WHERE checksum IS NULL'
                assert connection.exec_driver_sql(missing).scalar() == 0
    with opened(tmp_path / "data") as client:
        assert failing(client) == {}


def rule_of(generator: random.Random, ids: list[str], queries: list[str]) -> dict[str, Any]:
    """Return a rule that hides a document for a query, with or without a vector."""
    return {"query": {generator.choice(["near", "exact"]): generator.choice(queries)}, "hide": [generator.choice(ids)]}


def event_of(generator: random.Random, ids: list[str], queries: list[str], clients: list[Any]) -> dict[str, Any]:
    """Return an event about any document."""
    action = generator.choice(["click", "like", "dislike", "impression"])
    return event(
        generator.choice(ids), action, user_query=generator.choice(queries), client_id=generator.choice(clients)
    )


def judgment_of(generator: random.Random, ids: list[str], queries: list[str]) -> dict[str, Any]:
    """Return a judgment of any rating, or its deletion."""
    rating = generator.choice([0, 1, 3, None])
    return {"query": generator.choice(queries), "document_id": generator.choice(ids), "rating": rating, "rater": "bo"}
