"""Training and evaluation leave out clicks that memory has nearly forgotten, unless nearly all clicks are so old."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from service.runtime.feedback_log import gather_feedback
from service.runtime.feedback_repository import LEAST_QUERIES, learned_since
from service.storage.database import rfc3339
from tests.service.client import CollectionClient, create, opened, runtime_of

HALF_LIFE = 30


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[CollectionClient]:
    with opened(tmp_path / "data") as client:
        shop = create(client, "shop", memory_half_life_days=HALF_LIFE)
        shop.add({"id": "coat", "text": "a coat for winter"}, {"id": "hat", "text": "a hat for summer"})
        yield shop


def click(shop: CollectionClient, queries: int, document_id: str, days: int, first: int = 0) -> None:
    """Store a click on a document for each query, and an impression that showed both, so many days ago."""
    timestamp = rfc3339(datetime.now(UTC) - timedelta(days=days))
    events = []
    for number in range(first, first + queries):
        about = {"query_id": f"{document_id} {number}", "user_query": f"query {number}", "timestamp": timestamp}
        for position, shown in enumerate(("coat", "hat"), 1):
            attributes = {"object": {"object_id": shown}, "position": {"ordinal": position}}
            events.append({**about, "action_name": "impression", "event_attributes": attributes})
        events.append({**about, "action_name": "click", "event_attributes": {"object": {"object_id": document_id}}})
    for start in range(0, len(events), 900):
        assert shop.post("events", events[start : start + 900])["rejected"] == []


def learned(shop: CollectionClient, half_life: int | None = HALF_LIFE) -> tuple[int, int]:
    """Return the clicks that are learned from, and the times that documents were shown."""
    with runtime_of(shop.client).database.read() as connection:
        since = learned_since(connection, shop.id, half_life)
        feedback = gather_feedback(connection, shop.id, since=since)

    def total(counts: list[dict[int, dict[int, int]] | None]) -> int:
        return sum(times for by_row in counts for by in (by_row or {}).values() for times in by.values())

    return total([one.clicks for one in feedback]), total([one.shown for one in feedback])  # type: ignore[misc]


def test_clicks_of_an_earlier_season_are_left_out(shop: CollectionClient) -> None:
    click(shop, LEAST_QUERIES, "coat", 4 * HALF_LIFE)
    click(shop, LEAST_QUERIES, "hat", 1)
    assert learned(shop) == (LEAST_QUERIES, 2 * LEAST_QUERIES)
    assert learned(shop, None) == (2 * LEAST_QUERIES, 4 * LEAST_QUERIES)
    assert learned(shop, 365) == (2 * LEAST_QUERIES, 4 * LEAST_QUERIES)


def test_judgments_have_no_age(shop: CollectionClient) -> None:
    click(shop, LEAST_QUERIES, "hat", 1)
    shop.judge("old and sure", "coat", 4)
    with runtime_of(shop.client).database.write() as connection:
        connection.exec_driver_sql("UPDATE judgments SET created_at = '2020-01-01T00:00:00.000Z'")
    with runtime_of(shop.client).database.read() as connection:
        since = learned_since(connection, shop.id, HALF_LIFE)
        found = gather_feedback(connection, shop.id, lambda texts: shop_vectors(shop, texts), since=since)
    assert "old and sure" in [one.query_key for one in found]


def shop_vectors(shop: CollectionClient, texts: object) -> object:
    return runtime_of(shop.client).encoder.encode_queries(texts)  # type: ignore[arg-type]


@pytest.mark.parametrize("lately", [0, LEAST_QUERIES - 1])
def test_an_old_log_is_read_where_there_is_little_else(shop: CollectionClient, lately: int) -> None:
    click(shop, LEAST_QUERIES, "coat", 4 * HALF_LIFE)
    click(shop, lately, "hat", 1)
    assert learned(shop)[0] == LEAST_QUERIES + lately


def test_clicks_on_deleted_documents_do_not_count(shop: CollectionClient) -> None:
    shop.add({"id": "gone", "text": "a scarf that is sold out"})
    click(shop, LEAST_QUERIES, "coat", 4 * HALF_LIFE)
    click(shop, LEAST_QUERIES, "gone", 1)
    assert shop.client.delete(f"{shop.path}/documents/gone").status_code == 204
    assert learned(shop)[0] == LEAST_QUERIES


def test_few_new_queries_beside_many_old_ones_are_not_enough(shop: CollectionClient) -> None:
    click(shop, 11 * LEAST_QUERIES, "coat", 4 * HALF_LIFE)
    click(shop, LEAST_QUERIES, "hat", 1)
    assert learned(shop)[0] == 12 * LEAST_QUERIES


@pytest.mark.usefixtures("forked_training")
def test_the_record_of_a_run_says_since_when_it_read(shop: CollectionClient) -> None:
    click(shop, LEAST_QUERIES, "coat", 4 * HALF_LIFE)
    click(shop, LEAST_QUERIES, "hat", 1)
    run = shop.train()
    window = shop.get(f"models/{run['model_version']}")["lineage"]["data"]["window"]
    first = (datetime.now(UTC) - timedelta(days=3 * HALF_LIFE)).date().isoformat()
    assert window["learned_since"] == f"{first}T00:00:00.000Z"
