"""Schema of a search request."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from index.ranking.context import MOST_DOCUMENTS
from service.http.requests import Strict

MAX_WINDOW = 10_000
Version = Annotated[int, Field(ge=0, le=2**31)]
Name = Annotated[str, Field(min_length=1, max_length=256)]
DocumentId = Annotated[str, Field(min_length=1, max_length=512)]
FieldNames = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=128)]],
    Field(min_length=1, max_length=16, json_schema_extra={"uniqueItems": True}),
]

FieldList = Annotated[list[Annotated[str, Field(min_length=1, max_length=128)]], Field(max_length=64)]


def _is_sort_rule(rule: str) -> str:
    field, _, direction = rule.rpartition(":")
    if not field or direction not in ("asc", "desc"):
        raise ValueError("must be a field and its direction, such as price:asc or price:desc")
    return rule


SortRule = Annotated[str, Field(min_length=1, max_length=140), AfterValidator(_is_sort_rule)]


class SearchIn(Strict):
    """A search. Only q is required; `*` finds all documents that pass the filter."""

    q: Annotated[str, Field(min_length=1, max_length=2048)]
    limit: Annotated[int, Field(ge=1, le=1000)] = 10
    offset: Annotated[int, Field(ge=0, le=MAX_WINDOW)] = 0
    filter: Annotated[str, Field(max_length=4096)] | None = None
    mode: Literal["hybrid", "dense", "words"] = "hybrid"
    candidates: Annotated[int, Field(ge=1, le=2000)] = 200
    model: Literal["champion", "challenger"] | Version = "champion"
    explain: bool | Literal["matrix"] = False
    predict: FieldNames | None = None
    pooled: bool = False
    typos: bool | None = None
    prefix: Literal["none", "last"] = "none"
    operators: bool = False
    all_words: bool = False
    facets: FieldNames | None = None
    count: bool = False
    sort: Annotated[list[SortRule], Field(min_length=1, max_length=4)] | None = None
    distinct: Annotated[str, Field(min_length=1, max_length=128)] | None = None
    fields: FieldList | None = None
    min_logit: float | None = None
    max_null_weight: Annotated[float, Field(ge=0, le=1)] | None = None
    answer: bool = False
    explore: Annotated[float, Field(ge=0, le=1)] = 0.0
    snippet: bool = False
    snippet_length: Annotated[int, Field(ge=20, le=2000)] = 240
    context: Annotated[list[DocumentId], Field(max_length=MOST_DOCUMENTS)] | None = None
    log: bool = True
    client_id: Name | None = None
    session_id: Name | None = None

    @model_validator(mode="after")
    def _bounded(self) -> "SearchIn":
        if self.offset + self.limit > MAX_WINDOW:
            raise ValueError(f"offset + limit is at most {MAX_WINDOW}")
        if not self.q.strip():
            raise ValueError("q must contain more than white space")
        if self.predict and len(set(self.predict)) < len(self.predict):
            raise ValueError("predict must not name a field twice")
        return self
