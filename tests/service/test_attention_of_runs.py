"""GET of the attention of a run: texts come from stored feedback, so a deleted query is not shown."""

from pathlib import Path

import pytest

from index.learning.examples import TEST_FOLDS, fold_of
from tests.service.client import CollectionClient, opened, problem

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
