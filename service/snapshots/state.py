"""The state hash: a digest of the content of a database that does not depend on the engine or on row numbers.

A row is canonical JSON with sorted columns. The digest of a table is the sum, modulo 2^256, of the sha256 of its rows:
it is the same in every order of the rows and takes no memory for them. The state hash is the sha256 of all tables.
It finds differences. It is not a signature: a person who chooses the rows can choose their sum.
"""

import hashlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import orjson
from sqlalchemy import Connection

from service.snapshots.state_repository import StoredState

MODULUS = 2**256
ROWS_PER_CALL = 1000


@dataclass(frozen=True)
class TableState:
    """The number of rows of a table and their digest in hexadecimal."""

    rows: int
    sha256: str


@dataclass(frozen=True)
class StateHash:
    """The digest of all content, and of each table."""

    sha256: str
    tables: dict[str, TableState]

    def as_json(self) -> dict[str, Any]:
        """Return the hash as JSON."""
        return asdict(self)


def state_hash(connection: Connection, proceed: Callable[[], None] = lambda: None) -> StateHash:
    """Return the state hash of a database. `proceed` is called now and then; an error that it raises ends the work."""
    stored = StoredState.of(connection)
    tables: dict[str, TableState] = {}
    for table in sorted(stored.tables, key=lambda one: one.name):
        rows, total = 0, 0
        for row in stored.rows(connection, table):
            total += int.from_bytes(hashlib.sha256(canonical(row)).digest(), "big")
            rows += 1
            if rows % ROWS_PER_CALL == 0:
                proceed()
        tables[str(table.name)] = TableState(rows, f"{total % MODULUS:064x}")
    body = canonical({name: asdict(one) for name, one in tables.items()})
    return StateHash(hashlib.sha256(body).hexdigest(), tables)


def canonical(value: Any) -> bytes:
    """Return a value as JSON with sorted keys; bytes are hexadecimal."""
    return orjson.dumps(value, default=_as_text, option=orjson.OPT_SORT_KEYS)


def _as_text(value: Any) -> str:
    if isinstance(value, bytes | memoryview):
        return bytes(value).hex()
    raise TypeError(f"no canonical form of {type(value).__name__}")
