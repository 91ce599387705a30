"""The attention before and after a training run, with the texts of its held-out queries.

The report of a run has hashes of queries. Their texts come from the stored feedback, so a deleted query is not shown.
"""

from typing import Any

from sqlalchemy import Connection

from index.learning.examples import hash_of
from service.http.problems import not_found
from service.runtime.collection import CollectionState
from service.runtime.runtime import Runtime
from service.training import repository


def forget_attention(connection: Connection, collection_id: int) -> None:
    """Delete the weights of queries that are no longer stored from the reports of runs.

    Whoever guesses the text of a query can tell by its hash whether a report has it.
    """
    for run_id, report in outdated_reports(connection, collection_id).items():
        repository.update_run(connection, run_id, report=report)


def outdated_reports(connection: Connection, collection_id: int) -> dict[str, dict[str, Any]]:
    """Return the run and the new report of each report that has weights of a query that is no longer stored."""
    if not (reports := repository.reports_with_attention(connection, collection_id)):
        return {}
    stored = {_name_of(query_key) for query_key in repository.past_queries(connection, collection_id)}
    left = {run_id: [one for one in of["attention"] if one["hash"] in stored] for run_id, of in reports}
    changed = [(run_id, of) for run_id, of in reports if len(left[run_id]) < len(of["attention"])]
    return {run_id: of | {"attention": left[run_id]} for run_id, of in changed}


def _name_of(query_key: str) -> str:
    """Return how a report names a query (`index.learning.held_out_attention`)."""
    return f"{hash_of(query_key):016x}"


def attention_of_run(runtime: Runtime, state: CollectionState, run_id: str) -> dict[str, Any]:
    """Return the versions and the weights by query, the query that changed most first. Raises Problem 404."""
    with runtime.database.read() as connection:
        run = repository.find_run(connection, state.id, run_id)
        if run is None:
            raise not_found("training_run")
        reported = {one["hash"]: one for one in (run.report or {}).get("attention", [])}
        past = repository.past_queries(connection, state.id) if reported else ()
        texts = {name: text for text in past if (name := _name_of(text)) in reported}
        model = repository.model_of_run(connection, state.id, run_id)
    queries = [
        {"q": texts[name], "before": one["before"], "after": one["after"]}
        for name, one in reported.items()
        if name in texts
    ]
    before = None if model is None else model.lineage.get("parent")
    return {"before": before, "after": None if model is None else model.version, "queries": queries}
