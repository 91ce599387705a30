"""The base class of the tables, and the types of their columns in each engine."""

from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Integer,
    LargeBinary,
    MetaData,
    Text,
)
from sqlalchemy.orm import DeclarativeBase

from service.storage.postgres_text import PostgresText

CONVENTION = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}


class Base(DeclarativeBase):
    """Base class of the tables. Constraint names follow a convention, so that migrations can name them."""

    metadata = MetaData(naming_convention=CONVENTION)
    type_annotation_map = {  # noqa: RUF012
        dict[str, Any]: JSON,
        list[Any]: JSON,
        str: Text().with_variant(PostgresText(), "postgresql"),
        bytes: LargeBinary,
        int: BigInteger().with_variant(Integer(), "sqlite"),
    }
