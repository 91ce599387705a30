"""Names of tenants: how the log keeps the clients, sessions and searches of keys with different filters apart.

The stored name is `filter:DIGITS:NAME`, with eight digits of the SHA-256 of the filter. The part before NAME is the
tenant. An event or a search of a tenant without a client has the tenant alone. Keys without a filter store names as
they are written; their tenant is an empty text. If such a key sends a name of this form, `filter:--------:NAME` is
stored, so that nobody can write in the name of a tenant.
"""

import hashlib
from typing import Any

from sqlalchemy import Column, ColumnElement, and_, case, func, literal, not_, or_, select, union_all

FILTERED = "filter:"
"""The beginning of a tenant."""
FILTER_DIGITS = 8
"""Hexadecimal digits of the SHA-256 of the filter."""
SIZE = len(FILTERED) + FILTER_DIGITS + 1
"""Characters of a tenant."""
NO_TENANT = ""
"""Stands for the tenant of keys without a filter."""
ESCAPE = f"{FILTERED}{'-' * FILTER_DIGITS}:"
"""The beginning of a stored name that a key without a filter sent in the form of a tenant's. No filter has it."""


def tenant_of_filter(filter: str | None) -> str:
    """Return the tenant of the keys with a filter."""
    if filter is None:
        return NO_TENANT
    return f"{FILTERED}{hashlib.sha256(filter.encode()).hexdigest()[:FILTER_DIGITS]}:"


def stored_name(tenant: str, name: str) -> str:
    """Return the name under which a client, a session or a search of a tenant is stored.

    A name that has the tenant already, as the log has it, is kept.
    """
    if tenant == NO_TENANT:
        return ESCAPE + name if _looks_stored(name) else name
    return name if name.startswith(tenant) else tenant + name


def stored_client(tenant: str, client: str | None) -> str | None:
    """Return the name under which a client of a tenant is stored, the tenant alone if there is none."""
    return stored_name(tenant, client or "") if tenant or client else client


def split(name: str | None) -> tuple[str, str | None]:
    """Return the tenant of a stored name, and the name as it was written; None if there was none."""
    if name is None or not _looks_stored(name):
        return NO_TENANT, name
    tenant = name[:SIZE]
    return NO_TENANT if tenant == ESCAPE else tenant, name[SIZE:] or None


def shown_name(name: str | None) -> str | None:
    """Return a stored name as the owner sees it: with its tenant, and as it was written where it is of no tenant."""
    tenant, written = split(name)
    return None if written is None else tenant + written


def _looks_stored(name: str) -> bool:
    return name.startswith(FILTERED) and name[SIZE - 1 : SIZE] == ":"


def named(name: ColumnElement[str | None]) -> ColumnElement[str | None]:
    """Return a stored name, as an expression; NULL if it has no more than a tenant.

    Equal names of two tenants differ, so that a comparison or a count takes their clients for two clients.
    """
    return case((not_(is_unnamed(name)), name))


def is_named(name: Column[Any], collection_id: int, wanted: str) -> ColumnElement[bool]:
    """Return the condition that a row is of a collection, and its stored name is `wanted` or was written so.

    It may be written so by any tenant, or with the name of a tenant by a key without a filter. The statement looks the
    names up in an index on the collection and the name, and reads a row for each tenant, not for each of its names.
    """
    rows = name.table.alias()
    other = rows.c[name.key]
    every = (rows.c.collection_id == collection_id, other < f"{FILTERED}~")
    first = select(func.min(other).label("name")).where(*every, other >= FILTERED)
    found = first.cte(recursive=True, nesting=True)  # a DELETE that begins with WITH has no row count in SQLite
    # `;` follows `:`, so it is after all names of the tenant and before those of the next
    last = case((_has_tenant(found.c.name), func.substr(found.c.name, 1, SIZE - 1) + literal(";")), else_=found.c.name)
    following = select(func.min(other)).where(*every, other > last).correlate(found).scalar_subquery()
    found = found.union_all(select(following).where(found.c.name.is_not(None)))
    text = literal(wanted, name.type)
    of_tenants = select(func.substr(found.c.name, 1, SIZE) + text).where(_has_tenant(found.c.name)).subquery()
    inner = func.substr(other, SIZE + 1)
    escaped = select(other).where(
        rows.c.collection_id == collection_id,
        other.between(ESCAPE, ESCAPE[:-1] + ";"),
        _has_tenant(inner),
        func.substr(inner, SIZE + 1) == text,
    )
    return and_(
        name.table.c.collection_id == collection_id, name.in_(union_all(select(text), select(of_tenants), escaped))
    )


def is_unnamed(name: ColumnElement[str | None]) -> ColumnElement[bool]:
    """Return the condition that a stored name has no more than a tenant."""
    return or_(name.is_(None), and_(_has_tenant(name), func.length(name) == SIZE))


def _has_tenant(name: ColumnElement[str | None]) -> ColumnElement[bool]:
    return and_(func.substr(name, 1, len(FILTERED)) == FILTERED, func.substr(name, SIZE, 1) == ":")
