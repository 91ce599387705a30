"""Schemas of answers about aliases of collections."""

from service.http.answers import Answer, example


class CollectionAlias(Answer):
    """A further name of a collection."""

    model_config = example(alias="shop", collection="shop-2026-09", created_at="2026-09-20T10:00:00.000Z")

    alias: str
    """The alias."""
    collection: str
    """The name of the collection."""
    created_at: str
    """The time when the alias was pointed at this collection."""


class CollectionAliasList(Answer):
    """All aliases of collections, by name."""

    model_config = example(aliases=[])

    aliases: list[CollectionAlias]
    """The aliases."""
