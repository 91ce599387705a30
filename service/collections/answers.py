"""Schemas of answers about collections."""

from typing import Literal

from pydantic import Field

from service.http.answers import Answer, example, sometimes


class AttentionSettings(Answer):
    """How queries attend to keys."""

    form: Literal["bilinear", "dot", "scaled_dot", "cosine", "additive", "gaussian"]
    """The function that scores a query against a key."""
    heads: int
    """The number of query projections."""
    normaliser: Literal["softmax", "one_hot", "uniform"]
    """The function from logits to weights."""
    value_rank: int
    """Rank of the change of values that training of the second hop may learn; 0: none is learned."""


class TrainingSchedule(Answer):
    """When training starts by itself."""

    every_hours: float
    """Hours between the starts of two runs, at least."""
    min_new_queries: int
    """Query texts that got feedback since the last run, at least."""


class Typos(Answer):
    """Which words of queries are corrected."""

    enabled: bool = sometimes()
    """Whether words are corrected."""
    one_edit: int = sometimes()
    """Letters of the shortest word that is corrected by one edit."""
    two_edits: int = sometimes()
    """Letters of the shortest word that is corrected by two edits."""
    off_words: list[str] = sometimes()
    """Words that are never corrected."""
    off_fields: list[Literal["title", "text"]] = sometimes()
    """Fields of documents in which corrections do not match."""


class SuggestionSettings(Answer):
    """Which logged queries complete a query."""

    min_clients: int
    """Clients that sent the query, at least."""
    off_words: list[str]
    """Words or short phrases: no query that contains one of them is suggested."""


class Synonyms(Answer):
    """Words that mean the same."""

    model_config = example(id="tv", words=["tv", "television"], **{"from": None})

    id: str
    """The id of the entry."""
    words: list[str]
    """The words or short phrases."""
    from_: str | None = Field(alias="from")
    """The only word that is replaced by the others; null if all replace each other."""


class SynonymsList(Answer):
    """The entries of synonyms of a collection, by id."""

    model_config = example(synonyms=[])

    synonyms: list[Synonyms]
    """The entries."""


class StoredSynonyms(Answer):
    """What a change of many entries of synonyms did."""

    model_config = example(stored=2, deleted=0, entries=7)

    stored: int
    """Entries that were given."""
    deleted: int
    """Entries that were there before and no longer are."""
    entries: int
    """Entries of the collection now."""


class CollectionSettings(Answer):
    """The settings of a collection."""

    filterable: list[str]
    """The metadata fields that filters may name."""
    language: str
    """The language of stemming, or `none`."""
    retention_days: int | None
    """Days after which raw queries and events are deleted; null keeps them until they are erased."""
    memory_retention_days: int | None
    """Days after which clicks leave memory, also anonymous memory; null keeps them."""
    keys: list[Literal["title", "passage", "sentence"]]
    """The kinds of keys that documents get."""
    attention: AttentionSettings
    """How queries attend to keys."""
    memory_half_life_days: int | None
    """Days in which remembered feedback loses half its weight; null means no decay."""
    memory_max_mb: int | None
    """The most MiB of memory; null for no limit."""
    typos: bool | Typos
    """Whether searches correct words that no document contains."""
    stop_words: list[str]
    """Words that are left out of queries that have other words."""
    question_words: bool
    """Whether the words of questions, such as `how do I`, are left out of them."""
    train: TrainingSchedule | None
    """When training starts by itself; null for never."""
    train_from_documents: bool
    """Whether a model is made from the documents by itself, while no labelled model serves."""
    suggestions: SuggestionSettings
    """Which logged queries complete a query."""


class Encoder(Answer):
    """The encoder that made the keys of a collection."""

    model: str
    """The name of the model."""
    fingerprint: str
    """The fingerprint of its weights."""
    dim: int
    """The width of its vectors."""


class Counts(Answer):
    """The numbers of what a collection holds."""

    documents: int
    """Searchable documents."""
    pending: int
    """Stored documents that are not searchable yet."""
    keys: dict[str, int]
    """Keys by kind."""
    events: int
    """Stored events."""
    judgments: int
    """Stored judgments."""
    models: int
    """Models, with the untrained model."""


class MemorySize(Answer):
    """The size of the memory of a collection."""

    queries: int
    """Past queries that searches use."""
    bytes: int
    """The bytes of these past queries, estimated from above."""
    max_bytes: int | None
    """The limit; null for no limit."""
    dropped: int
    """Past queries that are in the log and not in memory, because of the limit."""


class Collection(Answer):
    """A collection: settings, counts, champion."""

    model_config = example(
        name="default",
        settings={
            "filterable": ["lang", "year"],
            "language": "english",
            "retention_days": None,
            "memory_retention_days": None,
            "keys": ["title", "passage"],
            "attention": {"form": "bilinear", "heads": 1, "normaliser": "softmax", "value_rank": 0},
            "memory_half_life_days": 365,
            "memory_max_mb": 6144,
            "typos": True,
            "stop_words": [],
            "question_words": True,
            "train": None,
            "train_from_documents": False,
            "suggestions": {"min_clients": 3, "off_words": []},
        },
        encoder={"model": "all-MiniLM-L6-v2", "fingerprint": "5b2f", "dim": 384},
        counts={
            "documents": 3,
            "pending": 0,
            "keys": {"title": 3, "passage": 3, "sentence": 0, "query": 1},
            "events": 1,
            "judgments": 0,
            "models": 1,
        },
        memory={"queries": 1, "bytes": 8300, "max_bytes": 6442450944, "dropped": 0},
        champion=0,
        generation=2,
        created_at="2026-09-20T10:00:00.000Z",
    )

    name: str
    """The name."""
    settings: CollectionSettings
    """The settings."""
    encoder: Encoder
    """The encoder that made the keys."""
    counts: Counts
    """The numbers of what the collection holds."""
    memory: MemorySize
    """The size of the memory."""
    champion: int
    """The version of the model that serves."""
    generation: int
    """The watermark: the number of changes that searches can see."""
    created_at: str
    """The time of creation."""


class CollectionList(Answer):
    """All collections, by name."""

    model_config = example(collections=[])

    collections: list[Collection]
    """The collections."""
