"""Who may do what: the access that an operation declares, and the caller of a request.

`service.access` declares the access of every operation. `service.http.authorisation` compares it with the caller.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Annotated, Literal, get_args

from fastapi import Depends, Request

from index.filters.conditions import FilterNode
from service.storage.tenants import stored_client, stored_name, tenant_of_filter

Scope = Literal["search", "events", "write", "train", "admin"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
"""The scopes of API keys. `admin` implies the others; the others imply nothing."""
PUBLIC: frozenset[Scope] = frozenset({"search", "events"})
"""The scopes of keys with a filter or with origins."""
ASKED = "softseek.asked"
"""The key of an ASGI scope that has the `Asked` of the request."""


@dataclass(frozen=True)
class Access:
    """What an operation needs.

    scopes: each of them suffices, and so does `admin`. None: the operation is open to all. filtered: whether keys with
    a filter may use the operation. act: the name of the operation in the audit log, None if it is not recorded there.
    """

    scopes: frozenset[Scope] | None
    filtered: bool = False
    act: str | None = None


@dataclass(frozen=True)
class Caller:
    """The rights of a request. The default has no rights.

    key_id: None without a key. collections: the names that the key covers, None for all. filter, condition: the filter
    that the key forces, as text and as a tree; None without a filter. origins: the origins of web pages that may use
    the key; empty for a key that is not for browsers.
    """

    key_id: str | None = None
    scopes: frozenset[Scope] = frozenset()
    collections: frozenset[str] | None = None
    filter: str | None = None
    condition: FilterNode | None = None
    origins: frozenset[str] = frozenset()
    rate_per_minute: int | None = None

    @property
    def is_admin(self) -> bool:
        """Whether the caller may do everything."""
        return "admin" in self.scopes

    @property
    def is_browser(self) -> bool:
        """Whether the key is made for browsers: all visitors of a page can read it."""
        return bool(self.origins)

    @property
    def reads_log(self) -> bool:
        """Whether the caller may read the searches of others."""
        return self.is_admin or "train" in self.scopes

    def has_scope(self, access: Access) -> bool:
        """Return whether a scope of the caller suffices."""
        return access.scopes is None or self.is_admin or not access.scopes.isdisjoint(self.scopes)

    def covers(self, *names: str | None) -> bool:
        """Return whether the caller may use a collection with one of these names."""
        return self.collections is None or not self.collections.isdisjoint(names)

    @property
    def tenant(self) -> str:
        """What the stored names of its clients, sessions and searches begin with; empty without a filter."""
        return tenant_of_filter(self.filter)

    def session(self, session_id: str | None) -> str | None:
        """Return the name under which a session is stored: sessions of different filters never join."""
        return None if session_id is None else stored_name(self.tenant, session_id)

    def client(self, client_id: str | None) -> str | None:
        """Return the name under which a client is stored, the tenant alone if there is none."""
        return stored_client(self.tenant, client_id)


OWNER = Caller(scopes=frozenset({"admin"}))
"""The caller of a service without keys, and of the command line on a data directory."""
ANYONE = Caller()
"""The caller without a valid key."""
CURRENT: ContextVar[Caller] = ContextVar("caller", default=OWNER)
"""The caller of the request that this task, or a thread that it calls, works for.

The threads of jobs and of the search pool have the owner: their requests look up the collection before.
"""


@contextmanager
def calling(caller: Caller) -> Iterator[None]:
    """Work for this caller: a collection is found only if the caller may use it (`SearchRuntime.collection`)."""
    token = CURRENT.set(caller)
    try:
        yield
    finally:
        CURRENT.reset(token)


@dataclass
class Asked:
    """A request: its operation and caller, and what the audit log says. An operation may change act and target.

    operation: the name of the route that answers the request, empty if there is none. collection: the collection in its
    address, or an empty text.
    An operation does so before the end of its first transaction, which stores the record. may_act: whether the request
    may be an act of administration. record_id: the number of its record in the audit log, None while it has none.
    is_answered: whether the head of the answer was sent. charge: counts the request as so many further ones in the rate
    of its key. Raises Problem 429.
    """

    caller: Caller = field(default_factory=Caller)
    operation: str = ""
    collection: str = ""
    act: str | None = None
    target: str = ""
    may_act: bool = False
    record_id: int | None = None
    is_answered: bool = False
    charge: Callable[[int], None] = lambda requests: None


async def asked_of(request: Request) -> Asked:
    """Return what the middleware found out about a request. Without the middleware no operation runs: KeyError."""
    asked: Asked = request.scope[ASKED]
    return asked


Asking = Annotated[Asked, Depends(asked_of)]
