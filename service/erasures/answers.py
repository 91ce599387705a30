"""Schemas of answers about erasures."""

from typing import Literal

from service.http.answers import Answer, example, sometimes


class SubjectHash(Answer):
    """A salted hash of the subject. A reader who knows the subject can recognise it; no reader can look it up."""

    method: str
    """`scrypt(n=16384, r=8, p=1)` of `KIND:SUBJECT` in UTF-8, 32 bytes."""
    salt: str
    """The salt, in hexadecimal digits."""
    hash: str
    """The hash, in hexadecimal digits."""


class ErasedRows(Answer):
    """The numbers of deleted rows."""

    impressions: int
    """Logged searches."""
    events: int
    """Events."""
    judgments: int
    """Judgments of the rater, of an erased user."""
    memory: int
    """`query` keys of the events and judgments."""
    idempotent_answers: int
    """Stored answers to searches with an `Idempotency-Key`, of all clients."""


class SeenBy(Answer):
    """A model that may have been trained on the erased data."""

    collection: str
    """The collection."""
    version: int
    """The version of the model."""
    training_run: str
    """The training run that made it."""
    created_at: str
    """The time of the model."""


class KeptSnapshot(Answer):
    """A snapshot that may hold the erased data. It is not changed."""

    file: str
    """The name of the file in the folder `snapshots` of the data directory."""
    bytes: int
    """Its size."""
    changed_at: str
    """The time of its last change."""


class SetAside(Answer):
    """An earlier database, or a folder of earlier contents, in the data directory. No erasure looks into it."""

    file: str
    """The name of the file or the folder in the data directory: `softseek.db.moved-TIME` or `set-aside-TIME`."""
    bytes: int
    """Its size."""
    changed_at: str
    """The time of its last change."""


class Receipt(Answer):
    """The receipt of an erasure. It does not name the subject."""

    model_config = example(
        id="0199b5a0-0000-7000-8000-000000000000",
        status="done",
        kind="client",
        subject={"method": "scrypt(n=16384, r=8, p=1)", "salt": "5f0c", "hash": "91ab"},
        collections=["default"],
        erased={"impressions": 12, "events": 9, "judgments": 0, "memory": 7, "idempotent_answers": 0},
        first_at="2026-09-01T08:00:00.000Z",
        canceled_training_runs=[],
        models=[
            {"collection": "default", "version": 3, "training_run": "0199", "created_at": "2026-09-02T01:00:00.000Z"}
        ],
        snapshots=[],
        set_aside=[],
        created_at="2026-09-20T10:00:00.000Z",
        finished_at="2026-09-20T10:00:04.000Z",
        sha256="5b2f",
    )

    id: str
    """The id of the erasure."""
    status: Literal["deleting", "scrubbing", "done"]
    """`deleting` rows, `scrubbing` files, `done`."""
    kind: Literal["client", "user", "session"]
    """The kind of the subject."""
    subject: SubjectHash
    """The subject, as a hash."""
    collections: list[str]
    """The collections that were searched for the subject, by their names at the request; an erasure of all collections
    adds the names that they have when the rows are deleted."""
    erased: ErasedRows
    """The numbers of deleted rows."""
    first_at: str | None
    """The time when the first of these rows was stored; null if there were none."""
    canceled_training_runs: list[str]
    """Training runs that were canceled, because their staged inputs may have held the data."""
    models: list[SeenBy]
    """Models that may have been trained on the data. They are not changed."""
    snapshots: list[KeptSnapshot]
    """All snapshots in the data directory: each may hold the data. They are not changed."""
    set_aside: list[SetAside] = sometimes()
    """Earlier contents that may hold the data. They are not changed. Receipts of earlier releases lack it."""
    created_at: str
    """The time of the request."""
    finished_at: str | None
    """The time when all files were clean."""
    sha256: str = sometimes()
    """SHA-256 of the finished receipt without this field, as JSON with sorted keys and without white space."""


class ReceiptList(Answer):
    """The receipts of erasures, the newest first."""

    model_config = example(erasures=[])

    erasures: list[Receipt]
    """At most 200 receipts."""
