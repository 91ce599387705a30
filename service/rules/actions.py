"""Stores, shows and deletes rules. A change takes effect with the next search."""

from typing import Any

from service.http.problems import Problem, not_found
from service.rules import repository
from service.rules.schemas import MAX_RULES, RuleIn
from service.runtime.collection import CollectionState
from service.runtime.collection_repository import require_collection
from service.runtime.rule_repository import as_rule, rule_rows
from service.runtime.runtime import Runtime
from service.storage.vector_codec import as_blob


def put(runtime: Runtime, state: CollectionState, id: str, wanted: RuleIn) -> tuple[dict[str, Any], bool]:
    """Store a rule durably; return its body, and whether it is new. Raises Problem 422 over MAX_RULES, 404."""
    vector = None
    if wanted.query.near is not None:
        state.require_encoder(runtime.encoder)
        vector = as_blob(runtime.encoder.encode_queries([wanted.query.near])[0])
    body = wanted.body()
    with state.lock:
        created = id not in state.rules
        if created and len(state.rules) >= MAX_RULES:
            raise Problem(422, "too_many_rules", f"a collection has at most {MAX_RULES} rules")
        with runtime.database.write() as connection:
            require_collection(connection, state.id)
            repository.store_rule(connection, state.id, id, body, vector)
        state.rules = state.rules.with_rule(as_rule(id, body, vector, state.dim))
        return show(runtime, state, id), created  # under the lock: it is not deleted yet


def show(runtime: Runtime, state: CollectionState, id: str) -> dict[str, Any]:
    """Return a rule. Raises Problem 404."""
    with runtime.database.read() as connection:
        row = repository.find_rule(connection, state.id, id)
    if row is None:
        raise not_found("rule")
    return _body(row)


def list_rules(runtime: Runtime, state: CollectionState) -> dict[str, Any]:
    """Return the rules of a collection that can be read, by id."""
    with runtime.database.read() as connection:
        rows, _ = rule_rows(connection, state.id)
    return {"rules": [_body(row) for row in rows]}


def remove(runtime: Runtime, state: CollectionState, id: str) -> None:
    """Delete a rule durably. Raises Problem 404."""
    with state.lock:
        with runtime.database.write() as connection:
            require_collection(connection, state.id)
            if not repository.delete_rule(connection, state.id, id):
                raise not_found("rule")
        state.rules = state.rules.without(id)


def _body(row: Any) -> dict[str, Any]:
    return {"id": row.id, **row.body, "created_at": row.created_at}
