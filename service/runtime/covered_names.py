"""The names under which a key may cover a collection."""

from collections.abc import Mapping


def names_of(collection: str, aliases: Mapping[str, str]) -> tuple[str, ...]:
    """Return the name of a collection and the aliases that point to it. aliases: alias -> name of its collection."""
    return collection, *(alias for alias, target in list(aliases.items()) if target == collection)
