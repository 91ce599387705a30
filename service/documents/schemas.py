"""What a document must be to be accepted."""

from typing import Annotated, Any

from pydantic import Field, StrictBool, StrictFloat, StrictInt, StrictStr

from service.http.requests import Strict

MAX_BATCH = 1000
MAX_TEXT_CHARACTERS = 1_000_000
MAX_IDS = 10_000

DocumentId = Annotated[str, Field(min_length=1, max_length=512)]
FieldName = Annotated[str, Field(min_length=1, max_length=128, pattern=r'^[^"\x00]+$')]
Text = Annotated[StrictStr, Field(max_length=10_000)]
Integer = Annotated[StrictInt, Field(ge=-(2**63), le=2**63 - 1)]
Number = Annotated[StrictFloat, Field(allow_inf_nan=False)]
FieldValue = Text | Integer | Number | StrictBool | Annotated[list[Text], Field(max_length=1000)]


class DocumentIn(Strict):
    """A document; posting the same id again replaces it whole."""

    id: DocumentId
    title: Annotated[str, Field(max_length=2000)] | None = None
    text: Annotated[str, Field(max_length=MAX_TEXT_CHARACTERS)]
    url: Annotated[str, Field(max_length=4096)] | None = None
    metadata: Annotated[dict[FieldName, FieldValue], Field(max_length=256)] = Field(default_factory=dict)


class DocumentBody(DocumentIn):
    """A document under its own address; the id may be left out."""

    id: DocumentId | None = None  # type: ignore[assignment]


class DocumentBatch(Strict):
    """Up to 1,000 documents; each is checked by itself, so that a bad one does not hold up the others."""

    documents: Annotated[
        list[Any],
        Field(
            min_length=1,
            json_schema_extra={"maxItems": MAX_BATCH, "items": {"$ref": "#/components/schemas/DocumentIn"}},
        ),
    ]


class Deletion(Strict):
    """Which documents to delete: by id, or all that a filter lets through."""

    ids: Annotated[list[DocumentId], Field(min_length=1, max_length=MAX_IDS)] | None = None
    filter: Annotated[str, Field(min_length=1, max_length=4096)] | None = None
