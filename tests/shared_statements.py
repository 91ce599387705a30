"""All engines of a test process share the compiled SQL statements of SQLite.

Each test opens a service with an engine of its own. SQLAlchemy compiles the statements of each engine anew, a third of
the time of a test. A key of its cache names the dialect, so dialects of one class must be equal for its entries to be
shared. They have the same options here, and the same library.
"""

from typing import Any

from sqlalchemy import Engine
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.util import LRUCache

CAPACITY = 5_000
"""Statements in the cache. The tests have some hundred; those with lists of different lengths are more."""


def share_statements() -> None:
    """Let all engines of SQLite in this process have one cache of compiled statements."""
    cache: Any = LRUCache(CAPACITY)
    dialect: Any = SQLiteDialect_pysqlite
    dialect.__hash__ = lambda self: hash(type(self))
    dialect.__eq__ = lambda self, other: type(self) is type(other)

    def of_engine(engine: Engine) -> Any:
        return cache if isinstance(engine.dialect, SQLiteDialect_pysqlite) else vars(engine)["own_cache"]

    def keep(engine: Engine, own: Any) -> None:
        vars(engine)["own_cache"] = own

    statements: Any = property(of_engine, keep)
    Engine._compiled_cache = statements
