"""Runs the migrations on the connection that the service passes, or on the database given by `-x database=PATH`."""

from pathlib import Path

from alembic import context
from sqlalchemy import Connection, create_engine

from service.storage.base import METADATA


def run(connection: Connection) -> None:
    """Run all migrations in one transaction."""
    context.configure(connection=connection, target_metadata=METADATA, render_as_batch=True, compare_type=True)
    with context.begin_transaction():
        context.run_migrations()


given = context.config.attributes.get("connection")
if given is not None:
    run(given)
else:
    path = context.get_x_argument(as_dictionary=True).get("database", "data/softseek.db")
    context.config.attributes["data"] = Path(path).parent
    with create_engine(f"sqlite:///{path}").connect() as opened:
        run(opened)
        opened.commit()
