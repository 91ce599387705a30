"""The tables of the administration of an installation. The state hash does not read them, and no index has them."""

from sqlalchemy import Table

from service.storage.base import (
    BOOLEAN,
    BYTES,
    INTEGER,
    METADATA,
    OBJECT,
    OPTIONAL_OBJECT,
    TEXT,
    checksum_of,
    optional,
    required,
)

IDENTITY = Table(
    "identity",
    METADATA,
    required("id", TEXT, primary_key=True),
    # The number of services that have begun to write to it: one that is not the newest is refused.
    required("epoch", INTEGER),
    checksum_of("identity"),
)
"""The identity of a PostgreSQL database, in one row. SQLite needs none: its file is in the data directory."""

TASKS = Table(
    "tasks",
    METADATA,
    required("id", TEXT, primary_key=True),
    required("type", TEXT),
    optional("collection", TEXT),
    required("status", TEXT),
    required("progress_done", INTEGER, default=0),
    required("progress_total", INTEGER, default=0),
    optional("result", OPTIONAL_OBJECT),
    optional("error", OPTIONAL_OBJECT),
    required("created_at", TEXT),
    optional("finished_at", TEXT),
    checksum_of("tasks"),
)
"""A job that continues after its request is answered."""

IDEMPOTENT_ANSWERS = Table(
    "idempotent_answers",
    METADATA,
    required("key", TEXT, primary_key=True),
    required("request_sha256", TEXT),
    required("status", INTEGER),
    required("headers", OBJECT),
    required("body", BYTES),
    required("created_at", TEXT),
    checksum_of("idempotent_answers"),
)
"""The answer to a request with an Idempotency-Key, kept for 24 hours."""

ERASURES = Table(
    "erasures",
    METADATA,
    required("id", TEXT, primary_key=True),
    # `deleting` until the rows are deleted, `scrubbing` until the files are rewritten, then `done`.
    required("status", TEXT),
    optional("subject", TEXT),
    required("receipt", OBJECT),
    required("created_at", TEXT),
    optional("finished_at", TEXT),
    checksum_of("erasures"),
)
"""An erasure of the data of one client, user or session. Its subject is stored until the rows are deleted."""

API_KEYS = Table(
    "api_keys",
    METADATA,
    required("id", TEXT, primary_key=True),
    required("name", TEXT),
    required("scopes", OBJECT),
    optional("collections", OPTIONAL_OBJECT),
    optional("filter", TEXT),
    required("origins", OBJECT),
    optional("rate_per_minute", INTEGER),
    # The SHA-256 of the key.
    required("digest", BYTES),
    # The digest of the key before the last rotation, valid until `old_until`.
    optional("old_digest", BYTES),
    optional("old_until", TEXT),
    # Whether the setting `admin_key` gives the key.
    required("from_environment", BOOLEAN, default=False, server_default="0"),
    required("created_at", TEXT),
    optional("expires_at", TEXT),
    optional("rotated_at", TEXT),
    optional("last_used_at", TEXT),
    checksum_of("api_keys"),
)
"""An API key with its rights. Of its text only a digest is stored."""

AUDIT = Table(
    "audit",
    METADATA,
    required("id", INTEGER, primary_key=True),
    required("at", TEXT),
    optional("key_id", TEXT),
    required("act", TEXT),
    required("target", TEXT),
    required("status", INTEGER),
    checksum_of("audit"),
    sqlite_autoincrement=True,  # ids are cursors
)
"""An act in the audit log. It names keys and addresses, and has neither keys nor texts of requests."""
