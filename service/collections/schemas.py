"""The request body of a collection."""

from typing import Annotated, Literal

from pydantic import Field, field_validator

from index.words.analyzers import LANGUAGES
from service.http.requests import Strict
from service.runtime.collection_settings import DEFAULT_SCHEDULE, DEFAULT_SUGGESTIONS

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$"
FieldName = Annotated[str, Field(min_length=1, max_length=128, pattern=r'^[^"\x00]+$')]


class SwapIn(Strict):
    """The two collections that exchange their names."""

    a: Annotated[str, Field(pattern=NAME_PATTERN)]
    """The name of a collection."""
    b: Annotated[str, Field(pattern=NAME_PATTERN)]
    """The name of another collection."""


class AttentionIn(Strict):
    """How queries attend to keys. Omitted fields keep their values, or get the defaults in a new collection."""

    form: Literal["bilinear", "dot", "scaled_dot", "cosine", "additive", "gaussian"] = "bilinear"
    heads: Annotated[int, Field(ge=1, le=8)] = 1
    normaliser: Literal["softmax", "one_hot", "uniform"] = "softmax"
    value_rank: Annotated[int, Field(ge=0, le=64)] = 0
    """Rank of the change of values that training of the second hop may learn; 0: none is learned."""


Word = Annotated[str, Field(min_length=1, max_length=128)]


class TyposIn(Strict):
    """Which unknown words of queries are corrected. An edit adds, drops or replaces a letter, or swaps two.

    Omitted fields keep their values, or get the defaults in a new collection.
    """

    enabled: bool = True
    one_edit: Annotated[int, Field(ge=2, le=64)] = 4
    two_edits: Annotated[int, Field(ge=2, le=64)] = 8
    off_words: Annotated[list[Word], Field(max_length=1000)] = Field(default_factory=list)
    off_fields: Annotated[list[Literal["title", "text"]], Field(max_length=2)] = Field(default_factory=list)


class SuggestionsIn(Strict):
    """Which logged queries complete a query.

    Omitted fields keep their values, or get the defaults in a new collection.
    """

    min_clients: Annotated[int, Field(ge=2, le=10_000)] = DEFAULT_SUGGESTIONS["min_clients"]
    """Clients that sent the query, at least."""
    off_words: Annotated[list[Word], Field(max_length=1000)] = Field(default_factory=list)
    """Words or short phrases: no query that contains one of them is suggested."""


class TrainingScheduleIn(Strict):
    """When a training run starts by itself. Omitted fields keep their values, or get the defaults in a new schedule."""

    every_hours: Annotated[float, Field(ge=0.01, le=8760)] = DEFAULT_SCHEDULE["every_hours"]
    """Hours between the starts of two runs, at least."""
    min_new_queries: Annotated[int, Field(ge=1, le=1_000_000)] = DEFAULT_SCHEDULE["min_new_queries"]
    """Query texts that got feedback since the last run, at least."""


class CollectionIn(Strict):
    """Settings of a collection. Omitted settings keep their values, or get the defaults in a new collection."""

    filterable: Annotated[list[FieldName], Field(max_length=64)] | None = None
    language: str | None = None
    retention_days: Annotated[int, Field(ge=1, le=36_500)] | None = None
    keys: Annotated[list[Literal["title", "passage", "sentence"]], Field(min_length=1)] | None = None
    attention: AttentionIn | None = None
    memory_half_life_days: Annotated[int, Field(ge=1, le=36_500)] | None = None
    memory_max_mb: Annotated[int, Field(ge=1, le=1_048_576)] | None = None
    memory_retention_days: Annotated[int, Field(ge=1, le=36_500)] | None = None
    typos: bool | TyposIn | None = None
    stop_words: Annotated[list[Word], Field(max_length=1000)] | None = None
    question_words: bool | None = None
    train: TrainingScheduleIn | None = None
    train_from_documents: bool | None = None
    suggestions: SuggestionsIn | None = None

    @field_validator("language")
    @classmethod
    def _known_language(cls, language: str | None) -> str | None:
        if language not in (None, "none", *LANGUAGES):
            raise ValueError(f"must be none or one of {', '.join(LANGUAGES)}")
        return language

    @field_validator("keys")
    @classmethod
    def _with_passages(cls, keys: list[str] | None) -> list[str] | None:
        if keys is not None and "passage" not in keys:
            raise ValueError("must contain passage: passages score the documents that have no other keys")
        return keys
