"""The records of an export: each is a row of a table, with the name of its type and of its collection.

A row keeps its number only where other records refer to it: a document, an event, a judgment. The import gives new
numbers. Bytes are base64. Columns have the names of the table. An export of an earlier schema lacks later columns.
"""

import math
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sqlalchemy import JSON, Boolean, Column, Double, Float, Integer, LargeBinary, Table, Text

from service.storage.base import METADATA

FORMAT = 1
OLDEST_REVISION = "0006"
"""The revision of the schema that had the first export."""
HEADER, END = "softseek_export", "end"
"""The types of the first and of the last line."""
FILES = "files"
"""The member of a model record with its files: name -> base64."""
TABLES = {
    "collection": "collections",
    "alias": "collection_aliases",
    "rule": "rules",
    "document": "documents",
    "value": "values",
    "pending_document": "pending_documents",
    "event": "events",
    "judgment": "judgments",
    "key": "keys",
    "impression": "queries",
    "training_run": "training_runs",
    "model": "models",
    "model_alias": "aliases",
    "model_alias_change": "alias_changes",
}
"""Type of a record -> its table, in the order of the export: a record refers to earlier records only."""
NOT_EXPORTED = {"identity", "tasks", "idempotent_answers", "erasures", "api_keys", "audit", "model_files"}
"""Tables about requests, the receipts of erasures, API keys, and the acts of administration; and the files of models,
which the records of models have."""
NUMBERED = {"documents": "row", "events": "id", "judgments": "id"}
"""Table -> the column with the number that other records refer to."""
LEFT_OUT = {
    "collections": {"id", "watermark", "documents_watermark"},
    "pending_documents": {"sequence"},
    "keys": {"id"},
    "models": {"id"},
    "alias_changes": {"id"},
}
"""Table -> columns that the import makes itself."""
LISTS = {"steps", "shown"}
"""JSON columns that hold lists. The others hold objects."""
ADDED: Mapping[str, Mapping[str, tuple[str, Any]]] = {
    "key": {"confirmed_on": ("0008", None)},
    "event": {"from_browser": ("0017", False)},
}
"""Type of a record -> member that earlier exports lack -> the first schema with it, and its value in those."""


@dataclass(frozen=True)
class RecordType:
    """A type of record, and its table."""

    name: str
    table: Table

    @cached_property
    def columns(self) -> dict[str, Column[Any]]:
        """The columns that a record has: name -> column."""
        left_out = LEFT_OUT.get(self.table.name, set()) | {"collection_id", "checksum"}
        return {str(one.key): one for one in self.table.columns if one.key not in left_out}

    @property
    def has_collection(self) -> bool:
        """Whether a record names its collection."""
        return "collection_id" in self.table.columns

    @cached_property
    def members(self) -> set[str]:
        """The names of all members of a record."""
        more = {"type"} | ({"collection"} if self.has_collection else set())
        return set(self.columns) | more | ({FILES} if self.name == "model" else set())

    def added_after(self, schema: str) -> dict[str, Any]:
        """Return the members that an export of this schema lacks, with their values."""
        return {name: value for name, (since, value) in ADDED.get(self.name, {}).items() if since > schema}

    @property
    def number(self) -> str | None:
        """The column with the number that other records refer to."""
        return NUMBERED.get(self.table.name)

    def encoded(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return the record of a row."""
        named = {"collection": row["of_collection"]} if self.has_collection else {}
        values = {name: as_text(row[name]) for name in self.columns}
        return {"type": self.name, **named, **values}

    def decoded(self, record: Mapping[str, Any], schema: str) -> dict[str, Any]:
        """Return the values of a record of an export with this schema by column; later columns get their values.

        Raises ValueError with the member that is wrong.
        """
        later = self.added_after(schema)
        members = self.members - later.keys()
        if missing := members - record.keys():
            raise ValueError(f"the {self.name} record lacks {sorted(missing)[0]}")
        if len(record) > len(members):
            raise ValueError(f"the {self.name} record has a member that is not documented")
        record = {**record, **later}
        if self.has_collection and not isinstance(record["collection"], str):
            raise ValueError("collection must be text")
        return {name: _value(column, record[name]) for name, column in self.columns.items()}


def as_text(value: Any) -> Any:
    """Return bytes as base64, and any other value as it is."""
    return b64encode(value).decode() if isinstance(value, bytes) else value


def as_bytes(value: Any) -> bytes:
    """Return the bytes of base64. Raises ValueError."""
    if not isinstance(value, str):
        raise ValueError("expected base64")  # every fault of a record is a ValueError
    return b64decode(value, validate=True)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


CHECKS: tuple[tuple[type[Any], Callable[[Any], bool]], ...] = (
    (Boolean, lambda value: isinstance(value, bool)),
    (Integer, lambda value: isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63),
    (Double, _is_number),
    (Float, _is_number),
    (Text, lambda value: isinstance(value, str)),
)
"""Type of a column -> whether a value of a record has it."""


def _value(column: Column[Any], value: Any) -> Any:
    if value is None and column.nullable:
        return None
    if isinstance(column.type, LargeBinary):
        return as_bytes(value)
    if isinstance(column.type, JSON):
        good = isinstance(value, list if column.key in LISTS else dict)
    else:
        good = next((check(value) for kind, check in CHECKS if isinstance(column.type, kind)), False)
    if not good:
        raise ValueError(f"{column.key} has a value of another type than documented")
    return value


TYPES = {name: RecordType(name, METADATA.tables[table]) for name, table in TABLES.items()}
