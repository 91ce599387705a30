"""Schema of a request for recommendations."""

from typing import Annotated

from pydantic import Field, model_validator

from service.http.requests import Strict
from service.search.schemas import DocumentId, FieldList

MAX_DOCUMENTS = 100
"""Liked documents, and disliked documents, of a request."""
MAX_WINDOW = 1000
"""Largest offset + limit."""


class RecommendIn(Strict):
    """Documents that a user liked and disliked. Only `like` is required."""

    like: Annotated[list[DocumentId], Field(min_length=1, max_length=MAX_DOCUMENTS)]
    dislike: Annotated[list[DocumentId], Field(default_factory=list, max_length=MAX_DOCUMENTS)]
    limit: Annotated[int, Field(ge=1, le=MAX_WINDOW)] = 10
    offset: Annotated[int, Field(ge=0, le=MAX_WINDOW)] = 0
    filter: Annotated[str, Field(max_length=4096)] | None = None
    fields: FieldList | None = None
    explain: bool = False

    @model_validator(mode="after")
    def _bounded(self) -> "RecommendIn":
        if self.offset + self.limit > MAX_WINDOW:
            raise ValueError(f"offset + limit is at most {MAX_WINDOW}")
        return self
