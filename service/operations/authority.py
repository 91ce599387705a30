"""The keys of a running service, as the middleware of authorisation asks for them."""

from service.audit import actions as audit
from service.http.access import Caller
from service.runtime.runtime import Runtime


class KeyAuthority:
    """Answers the questions of `service.http.authorisation.Authority`."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def has_keys(self) -> bool:
        """Return whether a key was made."""
        return len(self._runtime.keyring) > 0

    def caller(self, token: bytes) -> Caller | None:
        """Return the caller with this key; None for a wrong or expired key."""
        return self._runtime.keyring.caller(token)

    def origins(self) -> frozenset[str]:
        """Return the origins of all keys."""
        return self._runtime.keyring.origins

    def collection_named(self, name: str) -> str:
        """Return the name of the collection that an alias names; other names are returned as they are."""
        return self._runtime.aliases.get(name, name)

    def record(self, key_id: str | None, act: str, target: str, status: int) -> None:
        """Store an act in the audit log, durably."""
        audit.record(self._runtime, key_id, act, target, status)
