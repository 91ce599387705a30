"""The API keys in memory: finds the caller of a key in a few microseconds, without the database.

A key is `sk_ID_SECRET`: a public id, by which it is found, and 256 random bits. Only the SHA-256 of the key is kept. A
key with so many random bits cannot be guessed, so a slow hash would protect nothing. A key of the environment may have
any form.
"""

import hashlib
import hmac
import math
import secrets
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from service.http.access import Caller

PREFIX = b"sk"
SECRET_BYTES = 32
NEVER = float("inf")


@dataclass(frozen=True)
class KnownKey:
    """A key with its rights. digests: each digest with the time, in seconds since 1970, until which it is valid."""

    caller: Caller
    digests: tuple[tuple[bytes, float], ...]
    from_environment: bool = False
    expires_at: float = NEVER


UNKNOWN = KnownKey(Caller(), ((bytes(32), 0.0),))
"""Compared with keys whose id is unknown, so that they take as long as others."""


class Keyring:
    """The keys that the service knows. `load` replaces them as a whole, so that a request sees one state."""

    def __init__(self) -> None:
        self._keys: Mapping[bytes, KnownKey] = {}
        self._unnamed = UNKNOWN
        self._origins: frozenset[str] = frozenset()
        self._used: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._keys)

    def load(self, keys: Iterable[KnownKey]) -> None:
        """Use these keys and no others."""
        known = {(key.caller.key_id or "").encode(): key for key in keys}
        self._unnamed = next((key for key in known.values() if key.from_environment), UNKNOWN)
        self._origins = frozenset(origin for key in known.values() for origin in key.caller.origins)
        self._keys = known

    def change(self, key_id: str, key: KnownKey | None) -> None:
        """Use another key with this id, or none, beside the other keys."""
        others = [other for name, other in self._keys.items() if name != key_id.encode()]
        self.load(others if key is None else [*others, key])

    @property
    def known(self) -> object:
        """The same object until keys are loaded again."""
        return self._keys

    def note_use(self, key_id: str, moment: float) -> None:
        """Note the use of a key in another process, in seconds since 1970."""
        self._used[key_id] = max(moment, self._used.get(key_id, 0.0))

    @property
    def origins(self) -> frozenset[str]:
        """The origins of all keys."""
        return self._origins

    def caller(self, token: bytes) -> Caller | None:
        """Return the caller with this key; None for a wrong or expired key."""
        now = time.time()
        key = self._keys.get(id_in(token), self._unnamed)
        digest = digest_of(token)
        matches = False
        for known, until in key.digests:
            matches |= hmac.compare_digest(known, digest) and now < until
        if not matches or now >= key.expires_at:
            return None
        self._used[key.caller.key_id or ""] = now
        return key.caller

    def has_admin_beside(self, key_id: str) -> bool:
        """Return whether another key with `admin` is valid now, for as long as this key if this one never expires."""
        now, named = time.time(), key_id.encode()
        least = self._keys[named].expires_at if named in self._keys else now
        least = least if math.isinf(least) else now
        return any(
            key.caller.is_admin and now < key.expires_at and least <= key.expires_at
            for other, key in self._keys.items()
            if other != named
        )

    def last_uses(self) -> dict[str, float]:
        """Return id of a key -> time of its last use since the start, in seconds since 1970."""
        return dict(self._used)


def id_in(token: bytes) -> bytes:
    """Return the public id in a key; empty for a text of another form."""
    parts = token.split(b"_", 2)
    return parts[1] if len(parts) == 3 and parts[0] == PREFIX else b""


def new_token(key_id: str) -> str:
    """Return a new key with this id. The id has letters, digits and hyphens."""
    return f"{PREFIX.decode()}_{key_id}_{secrets.token_urlsafe(SECRET_BYTES)}"


def digest_of(token: bytes) -> bytes:
    """Return the SHA-256 of a key."""
    return hashlib.sha256(token).digest()
