"""The tables. Every index is derived from their rows.

Vectors are BLOBs of little-endian float32. Times are RFC 3339 text in UTC: it sorts by time and is the same in SQLite
and JSON. JSON columns hold values that no query joins on. Document rows and key ids increase and are never reused.
"""

from typing import Any

from sqlalchemy import JSON, ForeignKey, Index, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

import service.storage.tables_of_administration  # noqa: F401  # the schema has its tables too
from service.storage.base import Base
from service.storage.checksums import of_new_row


class Collection(Base):
    """A searchable set of documents with its own models, feedback and settings."""

    __tablename__ = "collections"
    __table_args__ = {"sqlite_autoincrement": True}  # noqa: RUF012  # folders are named by the id, so it is never reused

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    settings: Mapped[dict[str, Any]]
    encoder: Mapped[str]
    fingerprint: Mapped[str]
    """The fingerprint of the encoder that made the keys. Other encoders are refused."""
    dim: Mapped[int]
    watermark: Mapped[int] = mapped_column(default=0)
    """The number of changes that are visible to searches."""
    documents_watermark: Mapped[int] = mapped_column(default=0)
    """The watermark of the last change of documents. A saved index is current if it has this watermark."""
    created_at: Mapped[str]
    checksum: Mapped[int | None] = mapped_column(default=of_new_row("collections"))


class CollectionAlias(Base):
    """A further name of a collection. It names the collection by name: a collection that is renamed loses it."""

    __tablename__ = "collection_aliases"

    name: Mapped[str] = mapped_column(primary_key=True)
    collection: Mapped[str]
    created_at: Mapped[str]
    checksum: Mapped[int | None] = mapped_column(default=of_new_row("collection_aliases"))


class Document(Base):
    """A searchable document. A replaced document gets a new row, so that rows are in the order of arrival."""

    __tablename__ = "documents"
    __table_args__ = (UniqueConstraint("collection_id", "id"), {"sqlite_autoincrement": True})

    row: Mapped[int] = mapped_column(primary_key=True)
    collection_id: Mapped[int] = mapped_column(ForeignKey("collections.id", ondelete="CASCADE"))
    id: Mapped[str]
    title: Mapped[str | None]
    text: Mapped[str]
    url: Mapped[str | None]
    metadata_: Mapped[dict[str, Any]] = mapped_column("metadata")
    created_at: Mapped[str]
    checksum: Mapped[int | None] = mapped_column(default=of_new_row("documents"))
    """Computed by each INSERT (service.storage.checksums). None if the row is known to be damaged."""


class PendingDocument(Base):
    """An accepted document that waits to be encoded. A newer document of the same id replaces it."""

    __tablename__ = "pending_documents"
    __table_args__ = (UniqueConstraint("collection_id", "id"), {"sqlite_autoincrement": True})

    sequence: Mapped[int] = mapped_column(primary_key=True)
    collection_id: Mapped[int] = mapped_column(ForeignKey("collections.id", ondelete="CASCADE"))
    id: Mapped[str]
    body: Mapped[dict[str, Any]]
    created_at: Mapped[str]
    checksum: Mapped[int | None] = mapped_column(default=of_new_row("pending_documents"))


class Key(Base):
    """A unit vector that queries are matched with. `query` keys (kind 3) come from feedback and have a query key."""

    __tablename__ = "keys"
    __table_args__ = (
        Index(
            "ix_keys_memory",
            "collection_id",
            "query_key",
            sqlite_where=text("kind = 3"),
            postgresql_where=text("kind = 3"),
        ),
        Index("ix_keys_document_row", "document_row"),
        Index("ix_keys_event_id", "event_id"),
        Index("ix_keys_judgment_id", "judgment_id"),
        Index("ix_keys_collection_id_kind", "collection_id", "kind"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    collection_id: Mapped[int] = mapped_column(ForeignKey("collections.id", ondelete="CASCADE"))
    document_row: Mapped[int] = mapped_column(
        ForeignKey("documents.row", ondelete="NO ACTION", deferrable=True, initially="DEFERRED")
    )
    """Deferred, because the `query` keys of a replaced document move to its new row inside the transaction."""
    kind: Mapped[int]
    vector: Mapped[bytes]
    weight: Mapped[float]
    span_start: Mapped[int]
    span_end: Mapped[int]
    query_key: Mapped[str | None] = mapped_column("source", key="query_key")
    """The normalised query text of a `query` key."""
    event_id: Mapped[int | None] = mapped_column(ForeignKey("events.id", ondelete="CASCADE"))
    judgment_id: Mapped[int | None] = mapped_column(ForeignKey("judgments.id", ondelete="CASCADE"))
    confirmed_on: Mapped[str | None]
    """The day of the confirmations of an anonymous key, which has no event and no judgment. None for other keys."""
    checksum: Mapped[int | None] = mapped_column(default=of_new_row("keys"))


class Value(Base):
    """The value vector of a document, which attention pools."""

    __tablename__ = "values"

    document_row: Mapped[int] = mapped_column(ForeignKey("documents.row", ondelete="CASCADE"), primary_key=True)
    vector: Mapped[bytes]
    checksum: Mapped[int | None] = mapped_column(default=of_new_row("values"))


class Impression(Base):
    """An impression: an answered search, the documents that it showed, and its model."""

    __tablename__ = "queries"
    __table_args__ = (
        Index("ix_queries_collection_id_source", "collection_id", "query_key"),
        Index("ix_queries_client_id", "collection_id", "client_id"),
    )

    query_id: Mapped[str] = mapped_column(primary_key=True)
    collection_id: Mapped[int] = mapped_column(ForeignKey("collections.id", ondelete="CASCADE"))
    text: Mapped[str]
    query_key: Mapped[str] = mapped_column("source", key="query_key")
    client_id: Mapped[str | None]
    session_id: Mapped[str | None]
    request: Mapped[dict[str, Any]]
    shown: Mapped[list[Any]]
    """An object for each shown document: id, position (1-based), logit, score."""
    null_weight: Mapped[float]
    model_version: Mapped[int]
    generation: Mapped[int]
    created_at: Mapped[str]
    checksum: Mapped[int | None] = mapped_column(default=of_new_row("queries"))


class Event(Base):
    """An event of the feedback log with the text of its query."""

    __tablename__ = "events"
    __table_args__ = (
        Index("ix_events_collection_id_source", "collection_id", "query_key"),
        Index("ix_events_query_id", "collection_id", "query_id"),
        Index("ix_events_client_id", "collection_id", "client_id"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    collection_id: Mapped[int] = mapped_column(ForeignKey("collections.id", ondelete="CASCADE"))
    action_name: Mapped[str]
    grade: Mapped[float | None]
    """None for an action that is stored but not used for learning."""
    query_id: Mapped[str | None]
    query_text: Mapped[str]
    query_key: Mapped[str] = mapped_column("source", key="query_key")
    document_id: Mapped[str | None]
    position: Mapped[int | None]
    client_id: Mapped[str | None]
    session_id: Mapped[str | None]
    timestamp: Mapped[str]
    body: Mapped[dict[str, Any]]
    created_at: Mapped[str]
    checksum: Mapped[int | None] = mapped_column(default=of_new_row("events"))


class Judgment(Base):
    """A rating that a rater gave to a document for a query text."""

    __tablename__ = "judgments"
    __table_args__ = (
        UniqueConstraint("collection_id", "query_key", "document_id", "rater"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    collection_id: Mapped[int] = mapped_column(ForeignKey("collections.id", ondelete="CASCADE"))
    query_text: Mapped[str]
    query_key: Mapped[str] = mapped_column("source", key="query_key")
    document_id: Mapped[str]
    rating: Mapped[int]
    rater: Mapped[str]
    created_at: Mapped[str]
    checksum: Mapped[int | None] = mapped_column(default=of_new_row("judgments"))


class TrainingRun(Base):
    """A training run: its parameters, steps, data, report and decision."""

    __tablename__ = "training_runs"
    __table_args__ = (Index("ix_training_runs_collection_id", "collection_id"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    collection_id: Mapped[int] = mapped_column(ForeignKey("collections.id", ondelete="CASCADE"))
    status: Mapped[str]
    seed: Mapped[int]
    promote: Mapped[str]
    budget_seconds: Mapped[int] = mapped_column(default=60, server_default="60")
    click_reading: Mapped[str] = mapped_column(default="auto", server_default="auto")
    resumptions: Mapped[int] = mapped_column(default=0, server_default="0")
    """The number of resumptions after a crash of the service. Resumptions after an orderly stop do not count."""
    cancel_requested: Mapped[bool] = mapped_column(default=False, server_default="0")
    progress_done: Mapped[int] = mapped_column(default=0)
    progress_total: Mapped[int] = mapped_column(default=0)
    steps: Mapped[list[Any]]
    data: Mapped[dict[str, Any]]
    report: Mapped[dict[str, Any]]
    decision: Mapped[dict[str, Any]]
    model_version: Mapped[int | None]
    error: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    created_at: Mapped[str]
    finished_at: Mapped[str | None]
    checksum: Mapped[int | None] = mapped_column(default=of_new_row("training_runs"))


class Model(Base):
    """A model: its lineage, report and decision. Version 0 is the untrained model."""

    __tablename__ = "models"
    __table_args__ = (UniqueConstraint("collection_id", "version"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    collection_id: Mapped[int] = mapped_column(ForeignKey("collections.id", ondelete="CASCADE"))
    version: Mapped[int]
    lineage: Mapped[dict[str, Any]]
    report: Mapped[dict[str, Any]]
    decision: Mapped[dict[str, Any]]
    created_at: Mapped[str]
    checksum: Mapped[int | None] = mapped_column(default=of_new_row("models"))


class ModelFile(Base):
    """A file of a trained model: its weights, or the manifest with their sha256. Version 0 has none."""

    __tablename__ = "model_files"

    collection_id: Mapped[int] = mapped_column(ForeignKey("collections.id", ondelete="CASCADE"), primary_key=True)
    version: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    body: Mapped[bytes]
    checksum: Mapped[int | None] = mapped_column(default=of_new_row("model_files"))


class Alias(Base):
    """A name that points at a model: `champion` serves, `challenger` is the newest model."""

    __tablename__ = "aliases"

    collection_id: Mapped[int] = mapped_column(ForeignKey("collections.id", ondelete="CASCADE"), primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    version: Mapped[int]
    checksum: Mapped[int | None] = mapped_column(default=of_new_row("aliases"))


class AliasChange(Base):
    """A change of an alias and its reason. A rollback reads these rows."""

    __tablename__ = "alias_changes"
    __table_args__ = (Index("ix_alias_changes_collection_id", "collection_id"), {"sqlite_autoincrement": True})

    id: Mapped[int] = mapped_column(primary_key=True)
    collection_id: Mapped[int] = mapped_column(ForeignKey("collections.id", ondelete="CASCADE"))
    name: Mapped[str]
    from_version: Mapped[int]
    to_version: Mapped[int]
    reason: Mapped[str]
    rollback: Mapped[bool] = mapped_column(default=False)
    created_at: Mapped[str]
    checksum: Mapped[int | None] = mapped_column(default=of_new_row("alias_changes"))


class Rule(Base):
    """A rule: a condition on the query, and the documents that it pins and hides."""

    __tablename__ = "rules"

    collection_id: Mapped[int] = mapped_column(ForeignKey("collections.id", ondelete="CASCADE"), primary_key=True)
    id: Mapped[str] = mapped_column(primary_key=True)
    body: Mapped[dict[str, Any]]
    vector: Mapped[bytes | None]
    """The encoded text of a `near` condition."""
    created_at: Mapped[str]
    checksum: Mapped[int | None] = mapped_column(default=of_new_row("rules"))
