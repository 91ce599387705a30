"""The PostgreSQL databases of a test run whose services all keep their content there."""

import json
import os
import sqlite3
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

from sqlalchemy import Engine, event

from benchmarks.postgres import PostgresServer, make_database
from index.storage.files import write_atomically
from service.settings import Settings
from service.storage.database import DATABASE_FILE
from service.storage.opening import open_database

ALL_TESTS = "TEST_POSTGRES"
"""The variable with the address of the server. Processes that the tests start have it too."""
SCHEMA = "schema"
"""The database with the newest schema that the databases of all tests are copies of."""
MARK = "test-database"
"""The file of a data directory with the name of its database."""


def make_schema(server: PostgresServer) -> None:
    """Make the database that others are copies of."""
    folder = server.folder / "schema"
    folder.mkdir()
    database = open_database(folder, server.database(SCHEMA))
    database.migrate()
    database.close()


def serve_all_tests() -> None:
    """Let each service of this process keep its content in a database of its own, by its data directory.

    A copy of a directory gets a copy of the database. A directory with a SQLite file is served from it, and a test that
    looks for such a file is skipped.
    """
    server = os.environ[ALL_TESTS]

    def database_address(settings: Settings) -> str | None:
        if settings.database:
            return settings.database.get_secret_value()
        if (settings.data / DATABASE_FILE).exists():
            return None
        return f"postgresql+psycopg://{server}/{_name_of(server, settings.data.resolve())}"

    event.listen(Engine, "before_cursor_execute", _in_postgres, retval=True)
    Settings.database_address = property(database_address)  # type: ignore[method-assign, assignment]
    if "pytest" in sys.modules:
        _skip_tests_of_the_file()


def _in_postgres(
    _connection: Any, _cursor: Any, statement: str, parameters: Any, context: Any, _many: bool
) -> tuple[str, Any]:
    """Return a statement that a test has written for SQLite as PostgreSQL takes it."""
    if context.dialect.name == "postgresql" and context.compiled is None:
        zeros = "decode(repeat('00', length(vector)), 'hex')"
        statement = statement.replace("zeroblob(length(vector))", zeros)
        if parameters and "?" in statement:
            statement = statement.replace("?", "%s")
    return statement, parameters


def _name_of(server: str, directory: Path) -> str:
    """Return the name of the database of a data directory, which is made at the first use."""
    mark = directory / MARK
    known = json.loads(mark.read_text()) if mark.exists() else {"of": None, "name": SCHEMA}
    if known["of"] != str(directory):
        name = f"of-{uuid4()}"
        make_database(server, name, known["name"])
        known = {"of": str(directory), "name": name}
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(mark, json.dumps(known).encode())  # another process may read it
    return str(known["name"])


def _skip_tests_of_the_file() -> None:
    import pytest

    connect = sqlite3.connect

    def connect_or_skip(path: Any, *arguments: Any, **options: Any) -> sqlite3.Connection:
        if Path(str(path)).name == DATABASE_FILE and not Path(str(path)).exists():
            pytest.skip("the test looks into the file of SQLite")
        return connect(path, *arguments, **options)

    sqlite3.connect = connect_or_skip  # type: ignore[assignment]
