"""The receipt of an erasure: what was deleted, and what may still hold it. It has a hash in place of the subject."""

import hashlib
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from service.runtime.first_start import ASIDE
from service.storage.database import DATABASE_FILE, now, rfc3339

METHOD = "scrypt(n=16384, r=8, p=1)"
COUNTS = ("impressions", "events", "judgments", "memory", "idempotent_answers")
COLLECTION_IDS = "collection_ids"
"""The member of an unfinished receipt with the ids of its collections, None for all. No answer shows it. Receipts that
an earlier release began lack it."""
SNAPSHOTS = "snapshots"
"""The folder of snapshots in the data directory."""
SET_ASIDE = (f"{DATABASE_FILE}.moved-*", f"{ASIDE}-*")
"""The file that a move to another database leaves in the data directory, and the folders of starts without one."""


def new_receipt(id: str, kind: str, subject: str, collections: list[str]) -> dict[str, Any]:
    """Return the receipt of an erasure that begins."""
    salt = os.urandom(16)
    return {
        "id": id,
        "status": "deleting",
        "kind": kind,
        "subject": {"method": METHOD, "salt": salt.hex(), "hash": subject_hash(kind, subject, salt)},
        "collections": collections,
        "erased": dict.fromkeys(COUNTS, 0),
        "first_at": None,
        "canceled_training_runs": [],
        "models": [],
        "snapshots": [],
        "set_aside": [],
        "created_at": now(),
        "finished_at": None,
    }


def is_of_all(receipt: dict[str, Any]) -> bool:
    """Return whether an unfinished erasure is of all collections, also of those that were made after its request."""
    return COLLECTION_IDS in receipt and receipt[COLLECTION_IDS] is None


def shown(receipt: dict[str, Any]) -> dict[str, Any]:
    """Return a receipt as answers show it."""
    return {name: value for name, value in receipt.items() if name != COLLECTION_IDS}


def subject_hash(kind: str, subject: str, salt: bytes) -> str:
    """Return the hash of a subject. It is slow on purpose, because subjects such as `b-123` are easy to enumerate."""
    return hashlib.scrypt(f"{kind}:{subject}".encode(), salt=salt, n=16384, r=8, p=1, dklen=32).hex()


def finished(receipt: dict[str, Any]) -> dict[str, Any]:
    """Return the receipt of an erasure that is done, with its checksum."""
    body = receipt | {"status": "done", "finished_at": now()}
    return body | {"sha256": checksum(body)}


def checksum(receipt: dict[str, Any]) -> str:
    """Return the SHA-256 of a receipt without its `sha256`, as JSON with sorted keys and without white space."""
    body = {name: value for name, value in receipt.items() if name != "sha256"}
    return hashlib.sha256(orjson.dumps(body, option=orjson.OPT_SORT_KEYS)).hexdigest()


def snapshots(data: Path) -> list[dict[str, Any]]:
    """Return the files in the folder of snapshots, by name.

    A file of any time may hold the subject: rows that were deleted or replaced before the erasure leave no time.
    """
    return [_kept(path) for path in sorted((data / SNAPSHOTS).glob("*")) if path.is_file()]


def set_aside(data: Path) -> list[dict[str, Any]]:
    """Return the databases and the folders that were set aside, by name. What they hold is not known."""
    return [_kept(path) for pattern in SET_ASIDE for path in sorted(data.glob(pattern))]


def _kept(path: Path) -> dict[str, Any]:
    """Return the name, the size and the time of the last change of a file, or of a folder with all of its files."""
    files = [path, *path.rglob("*")] if path.is_dir() else [path]
    facts = [one.stat() for one in files]
    return {
        "file": path.name,
        "bytes": sum(fact.st_size for one, fact in zip(files, facts, strict=True) if one.is_file()),
        "changed_at": rfc3339(datetime.fromtimestamp(max(fact.st_mtime for fact in facts), UTC)),
    }
