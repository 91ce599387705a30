"""The schema, the types of its columns in each engine, and short names for the kinds of columns."""

from functools import partial
from typing import Any

from sqlalchemy import JSON, BigInteger, Boolean, Column, Double, ForeignKey, Integer, LargeBinary, MetaData, Text

from service.storage.checksums import of_new_row
from service.storage.postgres_text import PostgresText

METADATA = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)
"""All tables. Constraint names follow a convention, so that migrations can name them."""
INTEGER = BigInteger().with_variant(Integer(), "sqlite")
TEXT = Text().with_variant(PostgresText(), "postgresql")
FLOAT: Double[float] = Double()
BOOLEAN = Boolean()
BYTES = LargeBinary()
OBJECT = JSON()
"""An object or a list."""
OPTIONAL_OBJECT = JSON(none_as_null=True)
"""An object, a list, or NULL for None."""
required = partial(Column[Any], nullable=False)
"""Return a column that has a value in each row: name, type, then what `Column` takes."""
optional = partial(Column[Any], nullable=True)


def of_collection(primary_key: bool = False) -> Column[Any]:
    """Return the column with the number of the collection, with which the row is deleted."""
    collection = ForeignKey("collections.id", ondelete="CASCADE")
    return required("collection_id", INTEGER, collection, primary_key=primary_key)


def checksum_of(table: str) -> Column[Any]:
    """Return the checksum of a row (`service.storage.checksums`). Each INSERT computes it."""
    return optional("checksum", INTEGER, default=of_new_row(table))
