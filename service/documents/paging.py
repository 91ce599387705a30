"""The cursor of a page of documents: the place of its last document in the order of arrival, as text for an address."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import NamedTuple

import orjson

PATTERN = r"^[A-Za-z0-9_-]*$"
MAX_CHARACTERS = 5000
"""More than the longest id has, which takes 6 bytes a character in JSON, with a time in base 64."""


class InvalidCursor(ValueError):
    """A text that is not a cursor of documents, for example one of an earlier release."""


class Place(NamedTuple):
    """The place of a document: when a document with its id was first stored, and the id."""

    created_at: str = ""
    id: str = ""


def cursor_of(place: Place) -> str:
    """Return the cursor of the page after a place."""
    return urlsafe_b64encode(orjson.dumps(tuple(place))).decode().rstrip("=")


def place_of(cursor: str) -> Place:
    """Return the place that a cursor names; the place before all documents for "". Raises InvalidCursor."""
    if not cursor:
        return Place()
    try:
        found = orjson.loads(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except ValueError as error:  # of base 64 and of JSON
        raise InvalidCursor from error
    if not isinstance(found, list) or [type(part) for part in found] != [str, str]:
        raise InvalidCursor
    return Place(*found)
