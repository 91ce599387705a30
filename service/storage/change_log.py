"""The change log of a PostgreSQL database: which rows each statement touched, written by triggers in its transaction.

A searcher copies the rows that were touched since its position. The log names rows and has none of their contents, so
nothing that is deleted stays in it, and a row that was touched twice is copied once.

A lock of the transaction makes the order of the numbers the order of the commits: a reader that has seen a number has
seen all lower ones.
"""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Table, text

from service.storage.base import METADATA
from service.storage.identity_repository import epoch_of, identity_of

CHANNEL = "softseek_changes"
"""The channel that tells listening searchers of each commit."""
KEPT_DAYS = 7
"""Entries older than that are deleted. A searcher that was away for longer compares all rows."""
LOCK = 0x50F75EED
ENTRY_KEYS = 10_000
"""The keys of an entry, at most: a value of jsonb has at most 256 MB, and a statement may touch millions of rows."""
FOLLOWED = (
    "collections", "collection_aliases", "documents", "keys", "values", "rules", "models", "model_files", "aliases",
    "events", "judgments", "queries", "api_keys",
)  # fmt: skip
"""The tables that an answer needs."""
SIGNALS = ("erasures",)
"""Tables whose rows are not copied; a change of them is told."""
Touched = dict[str, set[tuple[Any, ...]]]
"""Table -> primary keys of the rows that were added, changed or deleted."""

_AT = "to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US')"
_LOGGED = f"""
CREATE OR REPLACE FUNCTION softseek_log_change() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    touched jsonb;
    is_large boolean;
    wanted text := 'SELECT jsonb_agg(DISTINCT %s) FROM %s AS touched_rows';
    source text := CASE TG_OP WHEN 'INSERT' THEN 'new_rows' WHEN 'DELETE' THEN 'old_rows'
        ELSE '(SELECT * FROM new_rows UNION ALL SELECT * FROM old_rows)' END;
BEGIN
    PERFORM pg_advisory_xact_lock({LOCK});
    EXECUTE format('SELECT EXISTS (SELECT FROM %s AS touched_rows OFFSET {ENTRY_KEYS})', source) INTO is_large;
    IF is_large THEN
        wanted := 'SELECT jsonb_agg(DISTINCT key) FROM (SELECT %s AS key,'
            ' (row_number() OVER () - 1) / {ENTRY_KEYS} AS part FROM %s AS touched_rows) AS parted GROUP BY part';
    END IF;
    FOR touched IN EXECUTE format(wanted, TG_ARGV[0], source) LOOP
        IF touched IS NOT NULL THEN
            INSERT INTO changes (epoch, table_name, row_keys) SELECT epoch, TG_TABLE_NAME, touched FROM identity;
            PERFORM pg_notify('{CHANNEL}', '');
        END IF;
    END LOOP;
    RETURN NULL;
END $$
"""  # it has no input


@dataclass(frozen=True)
class Position:
    """A place in the log of a database: everything up to it is known.

    identity, epoch: of the database. number, at: of the entry; a log always has one. Another history of the same
    database, as after the promotion of a standby that lacked commits, has another `at` at the number.
    """

    identity: str
    epoch: int
    number: int
    at: str


def make_change_log(connection: Connection) -> None:
    """Make the log and its triggers in a database that has the newest schema, if they are missing.

    The log is no content: it can be dropped, and the next start of a writer makes a new one.
    """
    if connection.execute(text("SELECT to_regclass('changes')")).scalar() is None:
        connection.execute(
            text(
                "CREATE TABLE changes (number bigserial PRIMARY KEY, epoch bigint NOT NULL, table_name text NOT NULL,"
                " row_keys jsonb NOT NULL, at timestamptz NOT NULL DEFAULT clock_timestamp())"
            )
        )
        connection.execute(text("INSERT INTO changes (epoch, table_name, row_keys) VALUES (0, 'changes', '[]')"))
    connection.exec_driver_sql(_LOGGED.replace("%", "%%"))
    for name in (*FOLLOWED, *SIGNALS):
        table = METADATA.tables[name]
        key = f"jsonb_build_array({', '.join(key_columns(table))})".replace("'", "''")
        for act, transitions in {
            "INSERT": "NEW TABLE AS new_rows",
            "UPDATE": "NEW TABLE AS new_rows OLD TABLE AS old_rows",
            "DELETE": "OLD TABLE AS old_rows",
        }.items():
            connection.execute(
                text(
                    f'CREATE OR REPLACE TRIGGER log_{act.lower()} AFTER {act} ON "{name}" REFERENCING {transitions}'
                    f" FOR EACH STATEMENT EXECUTE FUNCTION softseek_log_change('{key}')"
                )
            )


def key_columns(table: Table) -> list[str]:
    """Return the names of the columns of a primary key, quoted."""
    return [f'"{column.name}"' for column in table.primary_key]


def newest_position(connection: Connection) -> Position:
    """Return the end of the log, by the snapshot of the connection."""
    number, at = connection.execute(text(f"SELECT number, {_AT} FROM changes ORDER BY number DESC LIMIT 1")).one()
    return Position(identity_of(connection), epoch_of(connection), int(number), str(at))


def continues(connection: Connection, position: Position) -> bool:
    """Return whether the log has all entries after a position, and the entry of the position itself."""
    if identity_of(connection) != position.identity:
        return False
    wanted = text(f"SELECT {_AT} FROM changes WHERE number = :number")
    return connection.execute(wanted, {"number": position.number}).scalar() == position.at


def touched_after(connection: Connection, number: int) -> Touched:
    """Return the rows that the entries after a number name."""
    touched: Touched = {}
    wanted = text("SELECT table_name, row_keys FROM changes WHERE number > :number")
    for name, keys in connection.execute(wanted, {"number": number}):
        touched.setdefault(name, set()).update(map(tuple, keys))
    return touched


def forget_old_changes(connection: Connection) -> None:
    """Delete entries that are older than KEPT_DAYS, but the newest, which positions are compared with."""
    connection.execute(
        text(
            "DELETE FROM changes WHERE at < now() - make_interval(days => :days)"
            " AND number < (SELECT max(number) FROM changes)"
        ),
        {"days": KEPT_DAYS},
    )
