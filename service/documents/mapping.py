"""Maps a record of any shape to a document of the API. Pure functions: no HTTP, no files, no SQL.

`strict` takes records in the form of the API and only renames the fields that are named. `lenient` takes records as
people have them: it knows usual names of fields, turns numbers into text where text is needed, and makes every other
field a metadata field. docs/cli.md describes the rules. Limits of sizes are checked afterwards, by
`service.documents.checking`.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from index.filters.parser import value_of
from service.documents.bulk_actions import source_of
from service.documents.metadata import Scalar, Unmappable, as_text, flattened, value_at, with_epochs

ID_NAMES = ("id", "_id", "objectID", "asin", "sku")
TITLE_NAMES = ("title", "name", "headline", "subject", "question")
TEXT_NAMES = ("text", "body", "content", "description", "answer")
URL_NAMES = ("url", "link")
"""Names of fields that `lenient` knows, the first one with a value first. Upper and lower case are equal."""

HASHED_ID = "without an id: the id is a hash of the content"
"""The note about a record without an id."""
NUMBER_AS_TEXT = "{} is a text that spells a number: name it in number_field (--number-field) to compare it by > and <"
"""The note about a text in a field that filters may use."""
TOO_LONG = "{} is too long for a field that filters use: it is in the text alone"
"""The note about a text that is named as a field of filters too."""
MAX_VALUE = 10_000
"""Characters of a text in the metadata."""
HASH_BYTES = 16
EXACT = 2**53
"""Doubles of this size and above stand for several whole numbers. A number of JSON from 2**64 on is a double."""

Mode = Literal["strict", "lenient"]


@dataclass(frozen=True)
class FieldMapping:
    """How records become documents. A field in another object is named with dots: `product.id`."""

    mode: Mode = "strict"
    id_field: str | None = None
    title_field: str | None = None
    text_fields: tuple[str, ...] = ()
    """Joined with blank lines, in this order."""
    url_field: str | None = None
    number_fields: tuple[str, ...] = ()
    """Metadata fields whose texts are read as numbers."""
    filterable: tuple[str, ...] = ()
    """Metadata fields that filters may use: a field of the text among them is metadata, too."""

    @property
    def named(self) -> dict[str, str]:
        """Field of the API -> field of the record, for id, title and url where named."""
        given = {"id": self.id_field, "title": self.title_field, "url": self.url_field}
        return {name: field for name, field in given.items() if field}


@dataclass(frozen=True)
class Mapped:
    """A document in the form of the API, and remarks about what was changed that a reader cannot expect."""

    document: dict[str, Any]
    notes: tuple[str, ...] = ()


def map_record(
    record: Mapping[str, Any], fields: FieldMapping, fallback_id: str | None = None, columns: bool = False
) -> Mapped:
    """Return the document of a record.

    fallback_id: the id of a record without one; None makes a hash of its content (lenient). columns: the record is a
    row of a table, so that fields without a place in a document are metadata in both modes.
    Raises Unmappable with the field and what was wanted.
    """
    if fields.mode == "lenient":
        source, own_id = source_of(record)
        return _lenient(source, fields, own_id, fallback_id)
    document = _strict(record, fields, columns)
    if fields.number_fields and isinstance(document.get("metadata"), Mapping):
        document["metadata"] = _with_numbers(document["metadata"], fields.number_fields)
    return Mapped(document)


def content_id(record: Mapping[str, Any]) -> str:
    """Return a hash of the content of a record: 32 hexadecimal digits. The order of its fields does not matter."""
    content = orjson.dumps(record, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS, default=str)
    return hashlib.sha256(content).hexdigest()[: 2 * HASH_BYTES]


def _strict(record: Mapping[str, Any], fields: FieldMapping, columns: bool) -> dict[str, Any]:
    taken = {name: _required(record, field, name) for name, field in fields.named.items()}
    if fields.text_fields:
        parts = [_required(record, field, "text") for field in fields.text_fields]
        for field, part in zip(fields.text_fields, parts, strict=True):
            if not isinstance(part, str):
                raise Unmappable(field, "must be a string")
        taken["text"] = "\n\n".join(part for part in parts if part)
    rest = dict(record)
    for field in {*fields.named.values(), *fields.text_fields}:
        if field in rest:
            del rest[field]
        elif not field.startswith("metadata."):  # a field of the metadata is also metadata
            rest = _without(rest, field.split("."))
    if not columns:
        return rest | taken
    own = {name: rest.pop(name) for name in ("id", "title", "text", "url") if name in rest}
    return own | taken | {"metadata": rest}


def _without(record: Mapping[str, Any], path: Sequence[str]) -> dict[str, Any]:
    """Return the record without the field at a path, and without the objects that have no other field."""
    name, *inner = path
    rest = {other: value for other, value in record.items() if other != name}
    if not inner or name not in record:
        return rest
    value = record[name]
    kept = _without(value, inner) if isinstance(value, Mapping) else value
    return rest if kept == {} else rest | {name: kept}


def _required(record: Mapping[str, Any], field: str, name: str) -> Any:
    value = value_at(record, field)
    if value is None and name in ("id", "text"):
        raise Unmappable(field, f"is missing; it is named as the {name} of the documents")
    return value


def _lenient(record: Mapping[str, Any], fields: FieldMapping, own_id: Any, fallback_id: str | None) -> Mapped:
    """Return the document of a record. own_id: the id that the record has outside of its fields."""
    notes: list[str] = []
    used: set[str] = set()
    id = None if "id" in fields.named else _scalar_text(own_id, "_id", exactly=True)
    document: dict[str, Any] = {"id": id, "title": None, "text": "", "url": None}
    for name, known in (("id", ID_NAMES), ("title", TITLE_NAMES), ("url", URL_NAMES)):
        field = None if document[name] else fields.named.get(name) or known_field(record, known)
        if field:
            used.add(field)
            value = _required(record, field, name if name in fields.named else "")
            document[name] = _scalar_text(value, field, exactly=name == "id")
    text_fields = fields.text_fields or tuple(filter(None, [known_field(record, TEXT_NAMES)]))
    used.update(text_fields)
    document["text"] = "\n\n".join(filter(None, (_joined(record, field) for field in text_fields)))
    if not document["title"] and fields.text_fields and all(value_at(record, field) is None for field in text_fields):
        raise Unmappable(fields.text_fields[0], "is missing; it is named as the text of the documents")
    if not document["text"] and not document["title"]:
        raise Unmappable("text", f"is missing; none of {', '.join(TEXT_NAMES)} has a value, and there is no title")
    if not document["id"]:
        document["id"] = fallback_id or content_id(record)
        notes += [] if fallback_id else [HASHED_ID]
    kept = {field for field in (*fields.text_fields, *fields.named.values()) if field in fields.filterable}
    metadata = document["metadata"] = _with_numbers(_metadata(record, used - kept, notes), fields.number_fields)
    for field in kept:
        if isinstance(value := metadata.get(field), str) and len(value) > MAX_VALUE:
            del metadata[field]
            notes.append(TOO_LONG.format(field))
    for field in fields.filterable:
        if isinstance(value := metadata.get(field), str) and value_of(value).number is not None:
            notes.append(NUMBER_AS_TEXT.format(field))
    return Mapped(document, tuple(dict.fromkeys(notes)))


def known_field(record: Mapping[str, Any], names: Sequence[str]) -> str | None:
    """Return the field of the record that has the first of these names and a value, else None."""
    by_name = {name.lower(): name for name in reversed(list(record))}
    found = (by_name.get(name.lower()) for name in names)
    return next((name for name in found if name is not None and record[name] not in (None, "", [], {})), None)


def _scalar_text(value: Any, field: str, exactly: bool) -> str | None:
    """Return an id, title or address as text, None if it has no value.

    exactly: a double is refused where different numbers are the same double. Raises Unmappable for it, and for an
    object or a list.
    """
    if isinstance(value, Mapping) and len(value) == 1:  # {"$oid": "..."}, as MongoDB exports an id
        (value,) = value.values()
    if value is None or value == "":
        return None
    if exactly and isinstance(value, float) and not abs(value) < EXACT:
        raise Unmappable(field, "is a number that has lost digits, because it is a double; write it in quotes")
    if isinstance(value, Scalar) and not isinstance(value, bool):
        return as_text(value)
    raise Unmappable(field, "must be a string or a number")


def _joined(record: Mapping[str, Any], field: str) -> str:
    """Return a field of the text: a string, a number, or a list of strings joined with blank lines."""
    value = value_at(record, field)
    if isinstance(value, list) and all(isinstance(part, Scalar) for part in value):
        return "\n\n".join(as_text(part) for part in value)
    if value is None or isinstance(value, Scalar):
        return "" if value is None else as_text(value)
    raise Unmappable(field, "must be a string or a list of strings")


def _metadata(record: Mapping[str, Any], used: set[str], notes: list[str]) -> dict[str, Any]:
    """Return the metadata of a record: every field that is not used elsewhere."""
    found: dict[str, Any] = {}
    for name, value in _fields(record, used, notes):
        if name not in found:
            found[name] = value
        elif found[name] != value:
            found[name] = [*_as_list(found[name]), *_as_list(value)]
            notes.append(f"several fields are named {name}: their values are a list")
    return with_epochs(found)


def _with_numbers(metadata: Mapping[str, Any], fields: Sequence[str]) -> dict[str, Any]:
    """Return metadata whose texts in these fields are numbers. Raises Unmappable for a text that spells none."""
    names = [field.removeprefix("metadata.") for field in fields]
    read = {field: _number(metadata[field], field) for field in names if field in metadata}
    return {name: value for name, value in {**metadata, **read}.items() if value is not None}


def _number(value: Any, field: str) -> Any:
    """Return a value with its texts as numbers; None for a blank text, which is no value."""
    if isinstance(value, list):
        return [number for one in value if (number := _number(one, field)) is not None]
    if not isinstance(value, str):
        return value
    if not value.strip():
        return None
    number = value_of(value.strip()).number
    if number is None:
        raise Unmappable(field, f"must be a number such as 12.99, and is {value[:40]!r}")
    return number


def _fields(record: Mapping[str, Any], used: set[str], notes: list[str]) -> Iterator[tuple[str, Any]]:
    for name, value in record.items():
        if name == "metadata" and isinstance(value, Mapping):
            yield from flattened(value, "", frozenset(), notes)
        elif name not in used:
            yield from flattened({name: value}, "", frozenset(used), notes)


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
