"""The truth of a data directory, read from its tables with `sqlite3` alone: whatever the service has acknowledged.

A truth does not depend on how far background work is: a document counts from the moment that it is accepted.
"""

import json
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from service.runtime.collection_repository import TOMBSTONE
from service.storage.database import DATABASE_FILE

Truth = dict[str, Any]
ACCEPTED = (
    "SELECT c.name, d.id, d.title, d.text, d.metadata FROM documents d JOIN collections c ON c.id = d.collection_id",
    "SELECT c.name, p.id, json_extract(p.body, '$.title'), json_extract(p.body, '$.text'),"
    " json_extract(p.body, '$.metadata') FROM pending_documents p JOIN collections c ON c.id = p.collection_id",
)
"""Stored documents, then pending documents, which replace them."""
PRESENT = f"c.name NOT LIKE '{TOMBSTONE}%'"
"""The condition of a collection whose deletion was not asked for. A task completes deletions."""
LISTS = {
    "collections": f"SELECT c.name, c.settings FROM collections c WHERE {PRESENT} ORDER BY 1",
    "events": "SELECT client_id, action_name, document_id FROM events ORDER BY id",
    "judgments": "SELECT query_text, document_id, rater, rating FROM judgments ORDER BY 1, 2, 3",
    "memory": "SELECT k.source, d.id, k.weight FROM keys k JOIN documents d ON d.row = k.document_row WHERE k.kind = 3"
    " ORDER BY 1, 2, 3",
    "rules": "SELECT id, body FROM rules ORDER BY 1",
    "champions": "SELECT c.name, a.version FROM aliases a JOIN collections c ON c.id = a.collection_id"
    f" WHERE a.name = 'champion' AND {PRESENT} ORDER BY 1",
    "changes": "SELECT from_version, to_version, reason FROM alias_changes ORDER BY id",
    "models": "SELECT c.id, m.version FROM models m JOIN collections c ON c.id = m.collection_id"
    f" WHERE {PRESENT} ORDER BY 1, 2",
    "runs": "SELECT id FROM training_runs ORDER BY id",
    "tasks": "SELECT id, type FROM tasks WHERE type IN ('snapshot', 'import', 'erasure') ORDER BY id",
    "names": "SELECT name, collection FROM collection_aliases ORDER BY 1",
    "erasures": "SELECT id FROM erasures ORDER BY 1",
    "api_keys": "SELECT id, hex(digest) FROM api_keys ORDER BY 1",
    "acts": "SELECT act, target FROM audit WHERE status < 400 ORDER BY id",
}
TABLES = {
    "rules": "rules",
    "names": "collection_aliases",
    "erasures": "erasures",
    "api_keys": "api_keys",
    "acts": "audit",
}
"""Lists of tables that databases of earlier releases lack."""
GROWING = ("models", "runs", "changes", "champions")
"""What a training run changes between its acknowledgement and its end."""
EMPTY: Truth = {"documents": {}, **{name: [] for name in LISTS}}


def read_truth(data: Path) -> Truth:
    """Return the truth of a data directory whose service has ended. Raises sqlite3.DatabaseError if it is damaged."""
    if not (data / DATABASE_FILE).exists():
        return EMPTY
    connection = sqlite3.connect(data / DATABASE_FILE, isolation_level=None)
    try:
        connection.execute("PRAGMA synchronous=OFF")  # of this copy, which is not needed after the check
        return truth_of(connection)
    finally:
        connection.close()


def truth_of(connection: sqlite3.Connection) -> Truth:
    """Return the truth that a connection sees. A database without tables holds nothing."""
    connection.execute("BEGIN")
    try:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if "documents" not in tables:
            return EMPTY
        documents = {
            f"{name}/{id}": [title, text, json.loads(metadata)]
            for statement in ACCEPTED
            for name, id, title, text, metadata in connection.execute(statement)
        }
        lists = {
            name: [list(row) for row in connection.execute(statement)] if TABLES.get(name, "keys") in tables else []
            for name, statement in LISTS.items()
        }
        return {"documents": documents, **lists}
    finally:
        connection.execute("COMMIT")


def faults_of(data: Path) -> list[str]:
    """Return what SQLite's own check and the foreign keys say against a database; empty if it is sound."""
    connection = sqlite3.connect(data / DATABASE_FILE, isolation_level=None)
    try:
        connection.execute("PRAGMA synchronous=OFF")
        checks = [row[0] for row in connection.execute("PRAGMA integrity_check") if row[0] != "ok"]
        return checks + [f"foreign key of {row[0]}" for row in connection.execute("PRAGMA foreign_key_check")]
    finally:
        connection.close()


def agrees(found: Truth, before: Truth, after: Truth) -> bool:
    """Whether a truth is the one before a request or the one after it, whole.

    A training run goes on between its two answers: its model, its change of champion and its own row come one by one.
    """
    if found in (before, after):
        return True
    if before["runs"] == after["runs"] and before["models"] == after["models"]:
        return False
    steady = [name for name in after if name not in GROWING]
    return any(all(found[name] == one[name] for name in steady) for one in (before, after)) and all(
        _between(before[name], found[name], after[name]) for name in GROWING
    )


def _between(before: list[Any], found: list[Any], after: list[Any]) -> bool:
    return all(one in found or one not in after for one in before) and all(
        one in before or one in after for one in found
    )


def difference(found: Truth, expected: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts of two truths that differ, for messages."""
    return {name: (found[name], expected[name]) for name in expected if found[name] != expected[name]}
