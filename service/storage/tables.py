"""The tables. Every index is derived from their rows.

Vectors are BLOBs of little-endian float32. Times are RFC 3339 text in UTC: it sorts by time and is the same in SQLite
and JSON. JSON columns hold values that no query joins on. Document rows and key ids increase and are never reused.
"""

from sqlalchemy import ForeignKey, Index, Table, UniqueConstraint, text

import service.storage.tables_of_administration  # noqa: F401  # the schema has its tables too
from service.storage.base import (
    BOOLEAN,
    BYTES,
    FLOAT,
    INTEGER,
    METADATA,
    OBJECT,
    OPTIONAL_OBJECT,
    TEXT,
    checksum_of,
    of_collection,
    optional,
    required,
)

COLLECTIONS = Table(
    "collections",
    METADATA,
    required("id", INTEGER, primary_key=True),
    required("name", TEXT, unique=True),
    required("settings", OBJECT),
    required("encoder", TEXT),
    # The fingerprint of the encoder that made the keys. Other encoders are refused.
    required("fingerprint", TEXT),
    required("dim", INTEGER),
    # The number of changes that are visible to searches.
    required("watermark", INTEGER, default=0),
    # The watermark of the last change of documents. A saved index is current if it has this watermark.
    required("documents_watermark", INTEGER, default=0),
    required("created_at", TEXT),
    checksum_of("collections"),
    sqlite_autoincrement=True,  # folders are named by the id, so it is never reused
)
"""A searchable set of documents with its own models, feedback and settings."""

COLLECTION_ALIASES = Table(
    "collection_aliases",
    METADATA,
    required("name", TEXT, primary_key=True),
    required("collection", TEXT),
    required("created_at", TEXT),
    checksum_of("collection_aliases"),
)
"""A further name of a collection. It names the collection by name: a collection that is renamed loses it."""

DOCUMENTS = Table(
    "documents",
    METADATA,
    required("row", INTEGER, primary_key=True),
    of_collection(),
    required("id", TEXT),
    optional("title", TEXT),
    required("text", TEXT),
    optional("url", TEXT),
    required("metadata", OBJECT),
    required("created_at", TEXT),
    checksum_of("documents"),  # None if the row is known to be damaged
    UniqueConstraint("collection_id", "id"),
    Index("ix_documents_collection_id_created_at_id", "collection_id", "created_at", "id"),
    sqlite_autoincrement=True,
)
"""A searchable document. A replaced one gets a new row, and keeps `created_at`: rows are in the order of changes."""

PENDING_DOCUMENTS = Table(
    "pending_documents",
    METADATA,
    required("sequence", INTEGER, primary_key=True),
    of_collection(),
    required("id", TEXT),
    required("body", OBJECT),
    required("created_at", TEXT),
    checksum_of("pending_documents"),
    UniqueConstraint("collection_id", "id"),
    sqlite_autoincrement=True,
)
"""An accepted document that waits to be encoded. A newer document of the same id replaces it."""

KEYS = Table(
    "keys",
    METADATA,
    required("id", INTEGER, primary_key=True),
    of_collection(),
    # Deferred, because the `query` keys of a replaced document move to its new row inside the transaction.
    required(
        "document_row",
        INTEGER,
        ForeignKey("documents.row", ondelete="NO ACTION", deferrable=True, initially="DEFERRED"),
    ),
    required("kind", INTEGER),
    required("vector", BYTES),
    required("weight", FLOAT),
    required("span_start", INTEGER),
    required("span_end", INTEGER),
    # The normalised query text of a `query` key.
    optional("source", TEXT, key="query_key"),
    optional("event_id", INTEGER, ForeignKey("events.id", ondelete="CASCADE")),
    optional("judgment_id", INTEGER, ForeignKey("judgments.id", ondelete="CASCADE")),
    # The day of the confirmations of an anonymous key, which has no event and no judgment. None for other keys.
    optional("confirmed_on", TEXT),
    checksum_of("keys"),
    Index(
        "ix_keys_memory", "collection_id", "query_key", sqlite_where=text("kind = 3"), postgresql_where=text("kind = 3")
    ),
    Index("ix_keys_document_row", "document_row"),
    Index("ix_keys_event_id", "event_id"),
    Index("ix_keys_judgment_id", "judgment_id"),
    Index("ix_keys_collection_id_kind", "collection_id", "kind"),
    sqlite_autoincrement=True,
)
"""A unit vector that queries are matched with. `query` keys (kind 3) come from feedback and have a query key."""

VALUES = Table(
    "values",
    METADATA,
    required("document_row", INTEGER, ForeignKey("documents.row", ondelete="CASCADE"), primary_key=True),
    required("vector", BYTES),
    checksum_of("values"),
)
"""The value vector of a document, which attention pools."""

QUERIES = Table(
    "queries",
    METADATA,
    required("query_id", TEXT, primary_key=True),
    of_collection(),
    required("text", TEXT),
    required("source", TEXT, key="query_key"),
    optional("client_id", TEXT),
    optional("session_id", TEXT),
    required("request", OBJECT),
    # An object for each shown document: id, position (1-based), logit, score.
    required("shown", OBJECT),
    required("null_weight", FLOAT),
    required("model_version", INTEGER),
    required("generation", INTEGER),
    required("created_at", TEXT),
    checksum_of("queries"),
    Index("ix_queries_collection_id_source", "collection_id", "query_key"),
    Index("ix_queries_client_id", "collection_id", "client_id"),
)
"""An impression: an answered search, the documents that it showed, and its model."""

EVENTS = Table(
    "events",
    METADATA,
    required("id", INTEGER, primary_key=True),
    of_collection(),
    required("action_name", TEXT),
    # None for an action that is stored but not used for learning.
    optional("grade", FLOAT),
    optional("query_id", TEXT),
    required("query_text", TEXT),
    required("source", TEXT, key="query_key"),
    optional("document_id", TEXT),
    optional("position", INTEGER),
    optional("client_id", TEXT),
    optional("session_id", TEXT),
    required("timestamp", TEXT),
    required("body", OBJECT),
    required("created_at", TEXT),
    # Whether an API key made for browsers sent the event.
    required("from_browser", BOOLEAN, default=False, server_default="0"),
    checksum_of("events"),
    Index("ix_events_collection_id_source", "collection_id", "query_key"),
    Index("ix_events_query_id", "collection_id", "query_id"),
    Index("ix_events_client_id", "collection_id", "client_id"),
    Index("ix_events_collection_id_created_at", "collection_id", "created_at"),
    sqlite_autoincrement=True,
)
"""An event of the feedback log with the text of its query."""

JUDGMENTS = Table(
    "judgments",
    METADATA,
    required("id", INTEGER, primary_key=True),
    of_collection(),
    required("query_text", TEXT),
    required("source", TEXT, key="query_key"),
    required("document_id", TEXT),
    required("rating", INTEGER),
    required("rater", TEXT),
    required("created_at", TEXT),
    checksum_of("judgments"),
    UniqueConstraint("collection_id", "query_key", "document_id", "rater"),
    Index("ix_judgments_collection_id_created_at", "collection_id", "created_at"),
    sqlite_autoincrement=True,
)
"""A rating that a rater gave to a document for a query text."""

TRAINING_RUNS = Table(
    "training_runs",
    METADATA,
    required("id", TEXT, primary_key=True),
    of_collection(),
    required("status", TEXT),
    required("seed", INTEGER),
    required("promote", TEXT),
    required("budget_seconds", INTEGER, default=60, server_default="60"),
    required("click_reading", TEXT, default="auto", server_default="auto"),
    # The number of resumptions after a crash of the service. Resumptions after an orderly stop do not count.
    required("resumptions", INTEGER, default=0, server_default="0"),
    required("cancel_requested", BOOLEAN, default=False, server_default="0"),
    required("progress_done", INTEGER, default=0),
    required("progress_total", INTEGER, default=0),
    required("steps", OBJECT),
    required("data", OBJECT),
    required("report", OBJECT),
    required("decision", OBJECT),
    optional("model_version", INTEGER),
    optional("error", OPTIONAL_OBJECT),
    required("created_at", TEXT),
    optional("finished_at", TEXT),
    checksum_of("training_runs"),
    Index("ix_training_runs_collection_id", "collection_id"),
)
"""A training run: its parameters, steps, data, report and decision."""

MODELS = Table(
    "models",
    METADATA,
    required("id", INTEGER, primary_key=True),
    of_collection(),
    required("version", INTEGER),
    required("lineage", OBJECT),
    required("report", OBJECT),
    required("decision", OBJECT),
    required("created_at", TEXT),
    checksum_of("models"),
    UniqueConstraint("collection_id", "version"),
)
"""A model: its lineage, report and decision. Version 0 is the untrained model."""

MODEL_FILES = Table(
    "model_files",
    METADATA,
    of_collection(primary_key=True),
    required("version", INTEGER, primary_key=True),
    required("name", TEXT, primary_key=True),
    required("body", BYTES),
    checksum_of("model_files"),
)
"""A file of a trained model: its weights, or the manifest with their sha256. Version 0 has none."""

ALIASES = Table(
    "aliases",
    METADATA,
    of_collection(primary_key=True),
    required("name", TEXT, primary_key=True),
    required("version", INTEGER),
    checksum_of("aliases"),
)
"""A name that points at a model: `champion` serves, `challenger` is the newest model."""

ALIAS_CHANGES = Table(
    "alias_changes",
    METADATA,
    required("id", INTEGER, primary_key=True),
    of_collection(),
    required("name", TEXT),
    required("from_version", INTEGER),
    required("to_version", INTEGER),
    required("reason", TEXT),
    required("rollback", BOOLEAN, default=False),
    required("created_at", TEXT),
    checksum_of("alias_changes"),
    Index("ix_alias_changes_collection_id", "collection_id"),
    sqlite_autoincrement=True,
)
"""A change of an alias and its reason. A rollback reads these rows."""

RULES = Table(
    "rules",
    METADATA,
    of_collection(primary_key=True),
    required("id", TEXT, primary_key=True),
    required("body", OBJECT),
    # The encoded text of a `near` condition.
    optional("vector", BYTES),
    required("created_at", TEXT),
    checksum_of("rules"),
)
"""A rule: a condition on the query, and the documents that it pins and hides."""
