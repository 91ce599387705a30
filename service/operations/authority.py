"""The keys of a running service, as the middleware of authorisation asks for them."""

from contextlib import AbstractContextManager, nullcontext

from service.audit import actions as audit
from service.http.access import Asked, Caller
from service.runtime.runtime import Runtime
from service.runtime.search_runtime import SearchRuntime
from service.storage.pending_acts import acting


class SearchAuthority:
    """Answers the questions of `service.http.authorisation.Authority` about searches, which are no acts."""

    def __init__(self, runtime: SearchRuntime) -> None:
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

    def covers(self, caller: Caller, collection: str) -> bool:
        """Return whether a caller may use the collection with this name or alias."""
        return self._runtime.covers(caller, collection)

    def acting(self, asked: Asked) -> AbstractContextManager[None]:
        """Return a context that stores nothing."""
        return nullcontext()

    def record(self, asked: Asked, status: int) -> None:
        """Store nothing."""


class KeyAuthority(SearchAuthority):
    """Answers the questions of `service.http.authorisation.Authority` about all operations."""

    def __init__(self, runtime: Runtime) -> None:
        super().__init__(runtime)
        self._owner = runtime

    def acting(self, asked: Asked) -> AbstractContextManager[None]:
        """Store the act of a request, if it is one, in the first transaction that the context commits."""
        return acting(audit.Act(asked))

    def record(self, asked: Asked, status: int) -> None:
        """Store the act of a request, or the status of its answer where the act is stored. It does so durably."""
        audit.record(self._owner, asked, status)
