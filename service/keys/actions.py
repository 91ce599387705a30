"""Makes, lists, rotates and deletes API keys. The next request sees the change."""

import os
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from service.http.access import Asked
from service.http.problems import Problem, not_found
from service.keys import repository
from service.keys.schemas import MAX_KEYS, KeyIn
from service.runtime.key_repository import damaged_keys, is_damaged, key_rows, known_key, known_keys
from service.runtime.keyring import Keyring, digest_of, new_token
from service.runtime.runtime import Runtime
from service.storage.database import is_ahead, new_id, now, rfc3339

ADMIN_KEY_FILE = "admin.key"
"""The file of the data directory with the first admin key, where the start made one."""
WRITTEN_SECONDS = 60
"""The last use of a key is stored at most this often."""
WRITTEN_KEYS = 500
"""Keys whose last use is stored in a transaction."""
NO_RIGHTS: dict[str, Any] = {
    "name": "damaged: it is refused", "scopes": [], "collections": [], "filter": None, "origins": [],
    "rate_per_minute": None, "expires_at": None, "created_at": "", "rotated_at": None, "last_used_at": None,
}  # fmt: skip
"""The columns that the list shows of a damaged key."""
HIDDEN = ("digest", "old_digest", "old_until", "from_environment", "checksum")
"""Columns that no answer has."""


def create_key(runtime: Runtime, wanted: KeyIn, asked: Asked) -> dict[str, Any]:
    """Make a key and return it with its text; name it in the audit log. Raises Problem 422 if it cannot be made."""
    values = wanted.model_dump(exclude={"expires_at"})
    values["scopes"] = sorted(set(wanted.scopes))
    values["expires_at"] = None if wanted.expires_at is None else rfc3339(wanted.expires_at)
    with runtime.database.write() as connection:
        count = repository.key_count(connection)
        if not count and "admin" not in wanted.scopes:
            detail = "the first key needs the scope admin: without it no further key could be made"
            raise Problem(422, "first_key_needs_admin", detail, [{"pointer": "/scopes", "detail": detail}])
        if count >= MAX_KEYS:
            raise Problem(422, "too_many_keys", f"there are at most {MAX_KEYS} keys")
        token, row = _insert(connection, values)
        asked.target = f"/v1/keys/{row['id']}"
    _use(runtime, row["id"])
    return {**shown(row, {}), "key": token}


def list_keys(runtime: Runtime) -> dict[str, Any]:
    """Return all keys without their texts, the oldest first. A damaged key, which is refused, has no scopes."""
    used = runtime.keyring.last_uses()
    with runtime.database.read() as connection:
        sound = [shown(row._asdict(), used) for row in key_rows(connection)]
        refused = [{"id": key_id, **NO_RIGHTS} for key_id in damaged_keys(connection)]
    return {"keys": sorted([*sound, *refused], key=lambda key: str(key["id"]))}


def delete_key(runtime: Runtime, key_id: str) -> None:
    """Delete a key. Raises Problem 404, and 409 for the last valid key with `admin`.

    A damaged key counts as a key with `admin`, because its rights are not known, but not as a valid one.
    The stored keys decide about the last key: the keys in memory change after the commit, and two deletions at once
    must not both be the last but one.
    """
    with runtime.database.write() as connection:
        row = repository.find_key(connection, key_id)
        if row is None and not is_damaged(connection, key_id):
            raise not_found("key")
        if (row is None or "admin" in row.scopes) and not _stored_keys(connection).has_admin_beside(key_id):
            raise Problem(
                409,
                "last_admin_key",
                "this is the last key with the scope admin, or the last that does not expire; make another key first",
            )
        repository.delete_key(connection, key_id)
    _use(runtime, key_id)


def rotate_key(runtime: Runtime, key_id: str, grace_seconds: int) -> dict[str, Any]:
    """Give a key a new text, and return the key with it. The old text stays valid for a time.

    Raises Problem 404, and 409 for the key of the environment and for a damaged key.
    """
    token = new_token(key_id)
    with runtime.database.write() as connection:
        row = repository.find_key(connection, key_id)
        if row is None and is_damaged(connection, key_id):
            detail = "the stored key differs from its checksum, so its rights are not known: delete it and make another"
            raise Problem(409, "key_damaged", detail)
        if row is None:
            raise not_found("key")
        if row.from_environment:
            detail = "the setting SOFTSEEK_ADMIN_KEY gives this key: change the setting and start the service again"
            raise Problem(409, "key_of_environment", detail)
        until = rfc3339(datetime.now(UTC) + timedelta(seconds=grace_seconds)) if grace_seconds else None
        changed = {"digest": digest_of(token.encode()), "rotated_at": now(), "old_until": until}
        changed["old_digest"] = row.digest if grace_seconds else None
        repository.change_key(connection, key_id, changed)
    _use(runtime, key_id)
    return {**shown({**row._asdict(), **changed}, runtime.keyring.last_uses()), "key": token}


def adopt_admin_key(runtime: Runtime) -> None:
    """Make the key of the setting `admin_key` valid, and the key that it named before invalid.

    The audit log names a key that was made or changed.
    """
    if runtime.settings.admin_key is None:
        return
    digest = digest_of(runtime.settings.admin_key.get_secret_value().encode())
    with runtime.database.write() as connection:
        row = repository.key_of_environment(connection)
        if row is None:
            _, made = _insert(connection, admin("SOFTSEEK_ADMIN_KEY"), digest)
            repository.record_creation(connection, made["id"])
        elif row.digest != digest:
            repository.change_key(connection, row.id, {"digest": digest, "rotated_at": now()})
            repository.record_rotation(connection, row.id)
    reload(runtime)


def make_admin_key_file(runtime: Runtime) -> Path | None:
    """Make an admin key in a file that only this user can read, if there is no key; return the path of a new file."""
    path = runtime.settings.data / ADMIN_KEY_FILE
    with runtime.database.write() as connection:
        if repository.key_count(connection):
            return None
        token, made = _insert(connection, admin(ADMIN_KEY_FILE))
        repository.record_creation(connection, made["id"])
        # before the commit: a stored key that was never written down would lock the service
        _write_private(path, token)
    reload(runtime)
    return path


def store_last_uses(runtime: Runtime, least_seconds: float = WRITTEN_SECONDS) -> None:
    """Store the last use of the keys whose stored last use is older by more than `least_seconds`."""
    used = runtime.keyring.last_uses()
    if not used:
        return
    with runtime.database.read() as connection:
        rows = [row for row in repository.stored_keys(connection) if row["id"] in used]
    moments = [datetime.fromtimestamp(used[row["id"]], UTC) for row in rows]
    changed = [
        (row, rfc3339(moment))
        for row, moment in zip(rows, moments, strict=True)
        if (row["last_used_at"] or "") < rfc3339(moment - timedelta(seconds=least_seconds))
        or is_ahead(row["last_used_at"] or "", moment)
    ]
    for first in range(0, len(changed), WRITTEN_KEYS):  # in parts, between which others write
        of_part, times = zip(*changed[first : first + WRITTEN_KEYS], strict=True)
        with runtime.database.write() as connection:
            repository.store_last_uses(connection, of_part, times)


def reload(runtime: Runtime) -> None:
    """Use the stored keys from the next request on."""
    with runtime.database.write() as connection:  # the writer's turn, so that an older state cannot replace a newer one
        runtime.keyring.load(known_keys(connection))


def _use(runtime: Runtime, key_id: str) -> None:
    """Use a key as it is stored, or no longer, from the next request on."""
    with runtime.database.write() as connection:  # as above
        runtime.keyring.change(key_id, known_key(connection, key_id))


def _stored_keys(connection: Connection) -> Keyring:
    stored = Keyring()
    stored.load(known_keys(connection))
    return stored


def admin(name: str) -> dict[str, Any]:
    """Return the columns of a key that may do everything."""
    unlimited = dict.fromkeys(("collections", "filter", "rate_per_minute", "expires_at"))
    return {"name": name, "scopes": ["admin"], "origins": [], **unlimited}


def shown(row: Mapping[str, Any], used: Mapping[str, float]) -> dict[str, Any]:
    """Return a key without its text. used: id -> time of the last use, in seconds since 1970."""
    body = {name: value for name, value in row.items() if name not in HIDDEN}
    if row["id"] in used:
        body["last_used_at"] = rfc3339(datetime.fromtimestamp(used[row["id"]], UTC))
    return body


def _insert(
    connection: Connection, rights: Mapping[str, Any], digest: bytes | None = None
) -> tuple[str, dict[str, Any]]:
    """Store a key; return its text and its row. digest: of the key of the environment, whose text is known."""
    key_id = new_id()
    token = new_token(key_id)
    row = {
        "id": key_id,
        **rights,
        "digest": digest or digest_of(token.encode()),
        "from_environment": digest is not None,
        "created_at": now(),
        "rotated_at": None,
        "last_used_at": None,
    }
    repository.insert_key(connection, row)
    return token, row


def _write_private(path: Path, text: str) -> None:
    """Write a file that only this user can read and write, durably and as a whole."""
    draft = path.with_suffix(".new")
    draft.unlink(missing_ok=True)
    file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(file, "w", encoding="ascii") as opened:
        opened.write(f"{text}\n")
        opened.flush()
        os.fsync(opened.fileno())
    draft.replace(path)
