"""`move`: copies all content of a stopped service to a database of another engine, and back."""

from pathlib import Path
from typing import Annotated

import typer

from service.cli import show
from service.cli.connection import ready_to_open, require_content, settings_from
from service.cli.failures import ERROR, Failure
from service.cli.options import DataOption, JsonOption

SQLITE = "sqlite"
ToOption = Annotated[
    str, typer.Option("--to", help="The address of a PostgreSQL database, or `sqlite` for the data directory.")
]


def move(to: ToOption, data: DataOption = None, json_out: JsonOption = False) -> None:
    """Copy the database of a stopped service to another engine, and verify the copy by its state hash."""
    settings = settings_from(data=data)
    if to != SQLITE and not to.startswith("postgresql+psycopg://"):
        raise Failure(ERROR, "--to must begin with postgresql+psycopg://, or be sqlite")
    if to == SQLITE and settings.database is None:
        raise Failure(ERROR, "the content is in SQLite already: SOFTSEEK_DATABASE names no other database")
    if to != SQLITE and settings.database is not None:
        reason = "SOFTSEEK_DATABASE says that the content is in PostgreSQL already"
        raise Failure(ERROR, f"{reason}; unset it to move the SQLite database of the data directory")
    with ready_to_open(settings):
        require_content(settings)
        from service.snapshots.moving import move_database
        from service.storage.owner_lock import OwnerLock

        lock = OwnerLock(settings.data)
        try:
            moved = move_database(settings.data, settings.database_address, None if to == SQLITE else to)
        finally:
            lock.release()
    if json_out:
        show.data(moved)
        return
    show.line(f"{moved['rows']} rows, state {moved['state']}")
    show.line(_next(to, moved["aside"]))


def _next(to: str, aside: str | None) -> str:
    """Return what the user does next."""
    if to == SQLITE:
        return "unset SOFTSEEK_DATABASE before the next start"
    wanted = "set SOFTSEEK_DATABASE to the address before the next start"
    if aside is None:
        return wanted
    advice = "delete it once the new database is verified and backed up, because no erasure reaches it"
    return f"{wanted}; the file of before is {Path(aside).name}: {advice}"
