"""The tables: the only truth. Vectors are BLOBs of little-endian float32; every index is derived from these rows.

Times are RFC 3339 text in UTC, so that they sort, and read the same in SQLite and in JSON. JSON columns hold what is
never joined on. Row numbers of documents and ids of keys only grow and are never used twice.
"""

from typing import Any

from sqlalchemy import JSON, ForeignKey, Index, LargeBinary, MetaData, Text, UniqueConstraint, text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

CONVENTION = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}


class Base(DeclarativeBase):
    """Root of the tables; constraint names follow one convention, so that migrations can name them."""

    metadata = MetaData(naming_convention=CONVENTION)
    type_annotation_map = {dict[str, Any]: JSON, list[Any]: JSON, str: Text, bytes: LargeBinary}  # noqa: RUF012


class Collection(Base):
    """A searchable set of documents with its own models, feedback and settings."""

    __tablename__ = "collections"
    __table_args__ = {"sqlite_autoincrement": True}  # noqa: RUF012  # folders are named by the number: never again

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    settings: Mapped[dict[str, Any]]
    encoder: Mapped[str]
    fingerprint: Mapped[str]
    """Of the encoder that made the keys; another encoder is refused."""
    dim: Mapped[int]
    watermark: Mapped[int] = mapped_column(default=0)
    """Counts the changes that a search can see."""
    documents_watermark: Mapped[int] = mapped_column(default=0)
    """The watermark of the last change to documents: what the saved index must have."""
    created_at: Mapped[str]


class Document(Base):
    """A document that can be found. A replaced one comes back as a new row: row order is order of arrival."""

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


class PendingDocument(Base):
    """A document that was accepted, durably, and waits to be encoded; the newest of an id is the one that counts."""

    __tablename__ = "pending_documents"
    __table_args__ = (UniqueConstraint("collection_id", "id"), {"sqlite_autoincrement": True})

    sequence: Mapped[int] = mapped_column(primary_key=True)
    collection_id: Mapped[int] = mapped_column(ForeignKey("collections.id", ondelete="CASCADE"))
    id: Mapped[str]
    body: Mapped[dict[str, Any]]
    created_at: Mapped[str]


class Key(Base):
    """A unit vector that queries are matched with; `query` keys (kind 3) come from feedback and name their source."""

    __tablename__ = "keys"
    __table_args__ = (
        Index("ix_keys_memory", "collection_id", "query_key", sqlite_where=text("kind = 3")),
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
    """Deferred: when a document is replaced its `query` keys move to the new row inside the transaction."""
    kind: Mapped[int]
    vector: Mapped[bytes]
    weight: Mapped[float]
    span_start: Mapped[int]
    span_end: Mapped[int]
    query_key: Mapped[str | None] = mapped_column("source", key="query_key")
    """The query text, normalised, of a `query` key."""
    event_id: Mapped[int | None] = mapped_column(ForeignKey("events.id", ondelete="CASCADE"))
    judgment_id: Mapped[int | None] = mapped_column(ForeignKey("judgments.id", ondelete="CASCADE"))


class Value(Base):
    """A document's own vector: what attention pools."""

    __tablename__ = "values"

    document_row: Mapped[int] = mapped_column(ForeignKey("documents.row", ondelete="CASCADE"), primary_key=True)
    vector: Mapped[bytes]


class Impression(Base):
    """An impression: a search that was answered, what was shown, and by which model."""

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
    """One object per document shown: id, position (1-based), logit, score."""
    null_weight: Mapped[float]
    model_version: Mapped[int]
    generation: Mapped[int]
    created_at: Mapped[str]


class Event(Base):
    """One line of the feedback log, as accepted, joined to its query's text."""

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
    """None for an action that is stored and not learned from."""
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


class Judgment(Base):
    """A grade that a rater gave to a document for a query text."""

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


class TrainingRun(Base):
    """One fit: what it was asked, its steps, the data it used, and what was decided, with reasons."""

    __tablename__ = "training_runs"
    __table_args__ = (Index("ix_training_runs_collection_id", "collection_id"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    collection_id: Mapped[int] = mapped_column(ForeignKey("collections.id", ondelete="CASCADE"))
    status: Mapped[str]
    seed: Mapped[int]
    promote: Mapped[str]
    budget_seconds: Mapped[int] = mapped_column(server_default="60")
    click_reading: Mapped[str] = mapped_column(server_default="auto")
    resumptions: Mapped[int] = mapped_column(server_default="0")
    """How often it was taken up again after the service had broken off, as against having been stopped in order."""
    cancel_requested: Mapped[bool] = mapped_column(server_default="0")
    progress_done: Mapped[int] = mapped_column(default=0)
    progress_total: Mapped[int] = mapped_column(default=0)
    steps: Mapped[list[Any]]
    data: Mapped[dict[str, Any]]
    report: Mapped[dict[str, Any]]
    decision: Mapped[dict[str, Any]]
    model_version: Mapped[int | None]
    error: Mapped[dict[str, Any] | None]
    created_at: Mapped[str]
    finished_at: Mapped[str | None]


class Model(Base):
    """A trained head: an immutable file, its checksum, where it came from, and its report. Version 0 is birth."""

    __tablename__ = "models"
    __table_args__ = (UniqueConstraint("collection_id", "version"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    collection_id: Mapped[int] = mapped_column(ForeignKey("collections.id", ondelete="CASCADE"))
    version: Mapped[int]
    lineage: Mapped[dict[str, Any]]
    report: Mapped[dict[str, Any]]
    decision: Mapped[dict[str, Any]]
    created_at: Mapped[str]


class Alias(Base):
    """A name that points at a model: `champion` serves, `challenger` is the newest."""

    __tablename__ = "aliases"

    collection_id: Mapped[int] = mapped_column(ForeignKey("collections.id", ondelete="CASCADE"), primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    version: Mapped[int]


class AliasChange(Base):
    """One move of an alias, and why; rollback walks back along these."""

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


class Task(Base):
    """A piece of work that outlives its request."""

    __tablename__ = "tasks"

    id: Mapped[str] = mapped_column(primary_key=True)
    type: Mapped[str]
    collection: Mapped[str | None]
    status: Mapped[str]
    progress_done: Mapped[int] = mapped_column(default=0)
    progress_total: Mapped[int] = mapped_column(default=0)
    result: Mapped[dict[str, Any] | None]
    error: Mapped[dict[str, Any] | None]
    created_at: Mapped[str]
    finished_at: Mapped[str | None]


class IdempotentAnswer(Base):
    """The answer that an Idempotency-Key was given, kept for 24 hours."""

    __tablename__ = "idempotent_answers"

    key: Mapped[str] = mapped_column(primary_key=True)
    request_sha256: Mapped[str]
    status: Mapped[int]
    headers: Mapped[dict[str, Any]]
    body: Mapped[bytes]
    created_at: Mapped[str]
