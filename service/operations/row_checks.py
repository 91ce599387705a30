"""Compares all stored rows with their checksums, for `softseek doctor`.

A row belongs to a kind: `documents`, `vectors` (the keys and values of documents), `memory` (the keys of past queries)
or a kind of KIND_OF. Rows of OUTSIDE belong to the installation, not to a collection.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from service.operations.damaged_rows_repository import DamagedRow, collection_ids, damaged_rows, owner_collection
from service.storage.checksums import TABLES

KIND_OF = {
    "documents": "documents",
    "values": "vectors",
    "events": "events",
    "judgments": "judgments",
    "pending_documents": "pending documents",
    "queries": "logged searches",
    "rules": "rules",
    "training_runs": "training runs",
    "collections": "settings",
    "models": "records of models",
    "model_files": "files of models",
    "aliases": "champion and challenger",
    "alias_changes": "promotions",
}
"""Table -> the kind of its rows; the rows of `keys` are `memory` or `vectors`."""
OUTSIDE = {
    "identity": "identity of the database",
    "api_keys": "API keys",
    "collection_aliases": "aliases of collections",
    "audit": "acts in the audit log",
    "erasures": "receipts of erasures",
    "tasks": "tasks",
    "idempotent_answers": "answers kept for Idempotency-Keys",
}
"""Table whose rows belong to no collection -> the kind of its rows."""
FIRST_KINDS = ("documents", "vectors")
"""The kinds that one check of a collection has together."""
KINDS = (*FIRST_KINDS, "memory", *(kind for kind in KIND_OF.values() if kind not in FIRST_KINDS))
"""The kinds of rows that a collection has."""
EVERY_KIND = (*KINDS, *OUTSIDE.values())
MOST_NAMED = 20
"""Damaged rows that a check names."""
MOST_KEPT = 10_000
"""Damaged rows of a kind that one repair mends. All are counted."""


@dataclass
class Damage:
    """Damaged rows by kind: the first MOST_KEPT with their tables, and the number of all."""

    rows: dict[str, list[tuple[str, DamagedRow]]] = field(default_factory=lambda: {kind: [] for kind in EVERY_KIND})
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(EVERY_KIND, 0))

    def add(self, table: str, row: DamagedRow) -> None:
        """Add a damaged row of a table."""
        kind = (KIND_OF | OUTSIDE).get(table) or ("memory" if row.is_memory else "vectors")
        self.counts[kind] += 1
        if len(self.rows[kind]) < MOST_KEPT:
            self.rows[kind].append((table, row))

    def named(self, kind: str) -> str:
        """Return the names and the number of the rows of a kind; an empty text without damage."""
        return listed((row.name for _, row in self.rows[kind]), self.counts[kind])


@dataclass
class StoredRows:
    """The damage of all tables: by the number of a collection, and outside all collections.

    unreadable: table -> why it cannot be read.
    """

    collections: dict[int, Damage] = field(default_factory=dict)
    outside: Damage = field(default_factory=Damage)
    unreadable: dict[str, str] = field(default_factory=dict)

    def of(self, collection_id: int) -> Damage:
        """Return the damage of a collection."""
        return self.collections.get(collection_id) or Damage()

    @property
    def faults(self) -> list[str]:
        """What is wrong beside the damage of collections and of the kinds of OUTSIDE, in words."""
        lost = [f"{kind} of no collection: {self.outside.named(kind)}" for kind in KINDS if self.outside.counts[kind]]
        return lost + [f"{table} cannot be read: {reason}" for table, reason in self.unreadable.items()]


def check_rows(connection: Connection) -> StoredRows:
    """Compare every row of TABLES with its checksum, a part at a time."""
    found = StoredRows()
    for table in TABLES:
        try:
            known = collection_ids(connection)
            for row in damaged_rows(connection, table):
                collection_id = row.collection_id
                if collection_id not in known:
                    collection_id = owner_collection(connection, row.documents)
                damage = (
                    found.outside if collection_id is None else found.collections.setdefault(collection_id, Damage())
                )
                damage.add(table, row)
        except SQLAlchemyError as error:
            found.unreadable[table] = str(getattr(error, "orig", None) or error)
    return found


def listed(names: Iterable[Any], count: int) -> str:
    """Return the first different names with a number: `a, b; 2 in all`."""
    first = list(dict.fromkeys(map(str, names)))[:MOST_NAMED]
    return f"{', '.join(first)}; {count} in all" if count else ""
