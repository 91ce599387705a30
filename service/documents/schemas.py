"""Schemas of documents and of requests about documents."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StrictBool, StrictFloat, StrictInt, StrictStr
from pydantic.config import JsonDict
from pydantic_core import PydanticKnownError

from service.http.requests import Strict

MAX_BATCH = 1000
MAX_TEXT_CHARACTERS = 1_000_000
MAX_IDS = 10_000


def _no_integer(value: Any) -> Any:
    """Refuse an integer as a float: an integer of more than 64 bits would be rounded."""
    if isinstance(value, int):
        raise PydanticKnownError("float_type")
    return value


DocumentId = Annotated[str, Field(min_length=1, max_length=512)]
FieldName = Annotated[str, Field(min_length=1, max_length=128, pattern=r'^[^"\x00]+$')]
Text = Annotated[StrictStr, Field(max_length=10_000)]
Integer = Annotated[StrictInt, Field(ge=-(2**63), le=2**63 - 1)]
Number = Annotated[StrictFloat, Field(allow_inf_nan=False), BeforeValidator(_no_integer)]
Scalar = Text | Integer | Number | StrictBool
FieldValue = Scalar | Annotated[list[Scalar], Field(max_length=1000, fail_fast=True)]


class DocumentIn(Strict):
    """A document. A document with an existing id replaces the stored document."""

    id: DocumentId
    title: Annotated[str, Field(max_length=2000)] | None = None
    text: Annotated[str, Field(max_length=MAX_TEXT_CHARACTERS)]
    url: Annotated[str, Field(max_length=4096)] | None = None
    metadata: Annotated[dict[FieldName, FieldValue], Field(max_length=256, fail_fast=True)] = Field(
        default_factory=dict
    )


class DocumentBody(DocumentIn):
    """A document sent to its own path. The id is optional because the path contains it."""

    id: DocumentId | None = None  # type: ignore[assignment]


class DocumentPatch(Strict):
    """Changes of a document, as a JSON merge patch (RFC 7396). Omitted fields keep their values.

    `metadata` is merged key by key: null removes a key, `"metadata": null` removes all. Null removes title and url.
    """

    id: DocumentId | None = None
    title: Annotated[str, Field(max_length=2000)] | None = None
    text: Annotated[str, Field(max_length=MAX_TEXT_CHARACTERS)] = Field(default_factory=str)
    url: Annotated[str, Field(max_length=4096)] | None = None
    metadata: Annotated[dict[FieldName, FieldValue | None], Field(max_length=512, fail_fast=True)] | None = None


def _batch_of(schema: str) -> Any:
    """Return the limits of a list whose items are checked one by one, and documented by this schema."""
    items: JsonDict = {"$ref": f"#/components/schemas/{schema}"}
    return Field(min_length=1, json_schema_extra={"maxItems": MAX_BATCH, "items": items})


class DocumentPatches(Strict):
    """Changes of up to 1,000 documents, each with its id. An invalid one does not stop the others."""

    documents: Annotated[list[Any], _batch_of("DocumentPatch")]


class DocumentBatch(Strict):
    """Up to 1,000 documents. Each document is checked separately: an invalid document does not stop the others."""

    documents: Annotated[list[Any], _batch_of("DocumentIn")]


ImportField = Annotated[str, Field(min_length=1, max_length=1024)]


class ImportParameters(Strict):
    """How the records of an import become documents."""

    mapping: Literal["strict", "lenient"] = "strict"
    id_field: ImportField | None = None
    title_field: ImportField | None = None
    text_field: Annotated[ImportField | None, Field(description="Several fields are separated by commas.")] = None
    url_field: ImportField | None = None
    number_field: Annotated[
        ImportField | None, Field(description="Metadata fields whose texts are numbers, separated by commas.")
    ] = None


class Deletion(Strict):
    """The documents to delete: a list of ids, or all documents that match a filter."""

    ids: Annotated[list[DocumentId], Field(min_length=1, max_length=MAX_IDS)] | None = None
    filter: Annotated[str, Field(max_length=4096)] | None = None
    """A filter that is not blank: a blank filter deletes nothing and is an error."""
