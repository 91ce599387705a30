"""The attention before and after a training run, with the texts of its held-out queries.

The report of a run has hashes of queries. Their texts come from the stored feedback, so a deleted query is not shown.
"""

from typing import Any

from index.learning.examples import hash_of
from service.http.problems import not_found
from service.runtime.collection import CollectionState
from service.runtime.runtime import Runtime
from service.training import repository


def attention_of_run(runtime: Runtime, state: CollectionState, run_id: str) -> dict[str, Any]:
    """Return the versions and the weights by query, the query that changed most first. Raises Problem 404."""
    with runtime.database.read() as connection:
        run = repository.find_run(connection, state.id, run_id)
        if run is None:
            raise not_found("training_run")
        reported = {int(one["hash"], 16): one for one in (run.report or {}).get("attention", [])}
        past = repository.past_queries(connection, state.id) if reported else ()
        texts = {number: text for text in past if (number := hash_of(text)) in reported}
        model = repository.model_of_run(connection, state.id, run_id)
    queries = [
        {"q": texts[number], "before": one["before"], "after": one["after"]}
        for number, one in reported.items()
        if number in texts
    ]
    before = None if model is None else model.lineage.get("parent")
    return {"before": before, "after": None if model is None else model.version, "queries": queries}
