"""The type of texts in PostgreSQL: NUL characters, which it refuses, are escaped, and texts sort by code point."""

from typing import Any

from sqlalchemy import Text
from sqlalchemy.types import TypeDecorator

ESCAPE = "\ufdd0"
"""A noncharacter of Unicode. In a stored text it stands before 0 for NUL, and before 1 for itself."""


class PostgresText(TypeDecorator[str]):
    """A text of any characters. Equal texts are stored equally."""

    impl = Text(collation="C")
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Any) -> str | None:
        return escaped(value) if value is not None else None

    def process_result_value(self, value: str | None, dialect: Any) -> str | None:
        return unescaped(value) if value is not None else None


def escaped(text: str) -> str:
    """Return a text as it is stored."""
    if "\0" not in text and ESCAPE not in text:
        return text
    return text.replace(ESCAPE, f"{ESCAPE}1").replace("\0", f"{ESCAPE}0")


def unescaped(stored: str) -> str:
    """Return a text of a stored text."""
    return stored.replace(f"{ESCAPE}0", "\0").replace(f"{ESCAPE}1", ESCAPE) if ESCAPE in stored else stored
