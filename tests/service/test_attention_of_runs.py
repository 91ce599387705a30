"""GET of the attention of a run: texts come from stored feedback, so a deleted query is not shown."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from index.learning.examples import TEST_FOLDS, fold_of, hash_of
from service.operations.retention import forget_old_feedback
from service.storage.database import rfc3339
from service.training.repository import find_run, insert_run, update_run
from tests.service.client import CollectionClient, good, opened, problem, runtime_of

pytestmark = pytest.mark.usefixtures("forked_training")


def test_the_attention_of_a_run_shows_held_out_queries_until_their_feedback_is_deleted(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as client:
        wood = CollectionClient(client)
        wood.add(*({"id": f"t{n}", "text": f"tree number {n} is tall"} for n in range(24)))
        queries = {f"which tree has number {n}": f"t{n}" for n in range(24)}
        for query, document in queries.items():
            wood.judge(query, document, 3)
        run = wood.train(budget_seconds=1, promote="never")
        assert run["status"] == "succeeded", run["error"]
        path = f"training-runs/{run['id']}/attention"
        seen = wood.get(path)
        held_out = {query for query in queries if fold_of(query) < TEST_FOLDS}
        assert (seen["before"], seen["after"]) == (0, 1)
        assert {one["q"] for one in seen["queries"]} == held_out != set()
        assert all(len(one["before"]) == len(one["after"]) == 11 for one in seen["queries"])
        assert "which tree" not in str(run["report"]), "a report outlives a deleted query"
        gone = seen["queries"][0]["q"]
        wood.judge(gone, queries[gone], None)
        assert {one["q"] for one in wood.get(path)["queries"]} == held_out - {gone}
        documents = wood.train(learn_from="documents", promote="never")
        assert wood.get(f"training-runs/{documents['id']}/attention")["queries"] == []
        problem(client.get(f"{wood.path}/training-runs/none/attention"), 404, "training_run_not_found")


def store_run(wood: CollectionClient, queries: Sequence[str]) -> None:
    """Store a run whose report has weights of these queries."""
    attention = [{"hash": f"{hash_of(query):016x}", "fold": 0, "before": [1.0], "after": [1.0]} for query in queries]
    wanted = {"seed": 0, "promote": "never", "budget_seconds": 1, "click_reading": "auto"}
    with runtime_of(wood.client).database.write() as connection:
        insert_run(connection, wood.id, "run", wanted, {})
        update_run(connection, "run", status="succeeded", report={"attention": attention, "head": {}})


def hashes(wood: CollectionClient) -> list[str]:
    """Return the hashes of queries in the report of the run."""
    with runtime_of(wood.client).database.read() as connection:
        run = find_run(connection, wood.id, "run")
    assert run is not None
    assert "head" in run.report
    return [one["hash"] for one in run.report["attention"]]


def test_a_report_has_no_hash_of_a_query_of_an_erased_client(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as client:
        wood = CollectionClient(client)
        wood.add({"id": "oak", "text": "an oak"})
        for query, client_id in (("common", "ada"), ("common", "bob"), ("secret of ada", "ada")):
            wood.act("oak", user_query=query, client_id=client_id)
        store_run(wood, ["common", "secret of ada"])
        wood.ended_task(good(client.post("/v1/erasures", json={"client": "ada"})))
        assert hashes(wood) == [f"{hash_of('common'):016x}"]


def test_a_report_has_no_hash_of_a_query_that_has_expired(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as client:
        wood = CollectionClient(client)
        wood.add({"id": "oak", "text": "an oak"})
        old = rfc3339(datetime.now(UTC) - timedelta(days=40))
        for query, more in (("of today", {}), ("of last month", {"timestamp": old})):
            wood.act("oak", user_query=query, **more)
        store_run(wood, ["of today", "of last month"])
        good(client.put(wood.path, json={"retention_days": 30}))
        forget_old_feedback(runtime_of(client))
        assert hashes(wood) == [f"{hash_of('of today'):016x}"]
