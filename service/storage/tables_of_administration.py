"""The tables of the administration of an installation. The state hash does not read them, and no index has them."""

from typing import Any

from sqlalchemy import JSON
from sqlalchemy.orm import Mapped, mapped_column

from service.storage.base import Base
from service.storage.checksums import of_new_row


class Identity(Base):
    """The identity of a PostgreSQL database, in one row. SQLite needs none: its file is in the data directory."""

    __tablename__ = "identity"

    id: Mapped[str] = mapped_column(primary_key=True)
    epoch: Mapped[int]
    """The number of services that have begun to write to it: one that is not the newest is refused."""
    checksum: Mapped[int | None] = mapped_column(default=of_new_row("identity"))


class Task(Base):
    """A job that continues after its request is answered."""

    __tablename__ = "tasks"

    id: Mapped[str] = mapped_column(primary_key=True)
    type: Mapped[str]
    collection: Mapped[str | None]
    status: Mapped[str]
    progress_done: Mapped[int] = mapped_column(default=0)
    progress_total: Mapped[int] = mapped_column(default=0)
    result: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    error: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    created_at: Mapped[str]
    finished_at: Mapped[str | None]
    checksum: Mapped[int | None] = mapped_column(default=of_new_row("tasks"))


class IdempotentAnswer(Base):
    """The answer to a request with an Idempotency-Key, kept for 24 hours."""

    __tablename__ = "idempotent_answers"

    key: Mapped[str] = mapped_column(primary_key=True)
    request_sha256: Mapped[str]
    status: Mapped[int]
    headers: Mapped[dict[str, Any]]
    body: Mapped[bytes]
    created_at: Mapped[str]
    checksum: Mapped[int | None] = mapped_column(default=of_new_row("idempotent_answers"))


class Erasure(Base):
    """An erasure of the data of one client, user or session. Its subject is stored until the rows are deleted."""

    __tablename__ = "erasures"

    id: Mapped[str] = mapped_column(primary_key=True)
    status: Mapped[str]
    """`deleting` until the rows are deleted, `scrubbing` until the files are rewritten, then `done`."""
    subject: Mapped[str | None]
    receipt: Mapped[dict[str, Any]]
    created_at: Mapped[str]
    finished_at: Mapped[str | None]
    checksum: Mapped[int | None] = mapped_column(default=of_new_row("erasures"))


class ApiKey(Base):
    """An API key with its rights. Of its text only a digest is stored."""

    __tablename__ = "api_keys"

    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    scopes: Mapped[list[Any]]
    collections: Mapped[list[Any] | None] = mapped_column(JSON(none_as_null=True))
    filter: Mapped[str | None]
    origins: Mapped[list[Any]]
    rate_per_minute: Mapped[int | None]
    digest: Mapped[bytes]
    """The SHA-256 of the key."""
    old_digest: Mapped[bytes | None]
    """The digest of the key before the last rotation, valid until `old_until`."""
    old_until: Mapped[str | None]
    from_environment: Mapped[bool] = mapped_column(default=False, server_default="0")
    """Whether the setting `admin_key` gives the key."""
    created_at: Mapped[str]
    expires_at: Mapped[str | None]
    rotated_at: Mapped[str | None]
    last_used_at: Mapped[str | None]
    checksum: Mapped[int | None] = mapped_column(default=of_new_row("api_keys"))


class AdminAct(Base):
    """An act in the audit log. It names keys and addresses, and has neither keys nor texts of requests."""

    __tablename__ = "audit"
    __table_args__ = {"sqlite_autoincrement": True}  # noqa: RUF012  # ids are cursors

    id: Mapped[int] = mapped_column(primary_key=True)
    at: Mapped[str]
    key_id: Mapped[str | None]
    act: Mapped[str]
    target: Mapped[str]
    status: Mapped[int]
    checksum: Mapped[int | None] = mapped_column(default=of_new_row("audit"))
