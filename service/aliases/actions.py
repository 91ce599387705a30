"""Points aliases at collections, shows and deletes them. The next request uses the change."""

from typing import Any

from service.aliases import repository
from service.http.problems import Problem, not_found
from service.runtime.runtime import Runtime


def put_alias(runtime: Runtime, alias: str, collection: str) -> tuple[dict[str, Any], bool]:
    """Point an alias at a collection, durably; return its body, and whether it is new.

    Raises Problem 404 without such a collection, and 409 if a collection has the name of the alias.
    """
    with runtime.collections_lock:
        target = runtime.collection(collection).name  # of the collection itself, if an alias of it was given
        if alias in runtime.collections:
            raise Problem(409, "name_is_taken", "a collection has this name; choose another name for the alias")
        with runtime.database.write() as connection:
            repository.replace_alias(connection, alias, target)
        is_new = alias not in runtime.aliases
        runtime.aliases[alias] = target
        return show_alias(runtime, alias), is_new  # under the lock: it is not deleted yet


def show_alias(runtime: Runtime, alias: str) -> dict[str, Any]:
    """Return an alias. Raises Problem 404."""
    with runtime.database.read() as connection:
        row = repository.find_alias(connection, alias)
    if row is None:
        raise not_found("alias")
    return _body(row)


def list_aliases(runtime: Runtime) -> dict[str, Any]:
    """Return all aliases, by name."""
    with runtime.database.read() as connection:
        return {"aliases": [_body(row) for row in repository.all_aliases(connection)]}


def delete_alias(runtime: Runtime, alias: str) -> str:
    """Delete an alias; its collection stays. Return the name of the collection. Raises Problem 404."""
    with runtime.collections_lock:
        collection: str = show_alias(runtime, alias)["collection"]
        with runtime.database.write() as connection:
            repository.delete_alias(connection, alias)
        runtime.aliases.pop(alias, None)
    return collection


def _body(row: Any) -> dict[str, Any]:
    return {"alias": row.name, "collection": row.collection, "created_at": row.created_at}
