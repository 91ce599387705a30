"""Schemas of answers about API keys."""

from service.http.access import Scope
from service.http.answers import Answer, example

KEY = {
    "id": "0199c7a0-0000-7000-8000-000000000000",
    "name": "search box",
    "scopes": ["search", "events"],
    "collections": ["articles"],
    "filter": 'tenant = "a"',
    "origins": ["https://example.org"],
    "rate_per_minute": None,
    "expires_at": None,
    "created_at": "2026-09-20T10:00:00.000Z",
    "rotated_at": None,
    "last_used_at": None,
}


class ApiKey(Answer):
    """A key without its text."""

    model_config = example(**KEY)

    id: str
    """The id."""
    name: str
    """What the key is for."""
    scopes: list[Scope]
    """What the key may do."""
    collections: list[str] | None
    """The collections that the key covers; null for all."""
    filter: str | None
    """The filter that every use of the key is restricted to."""
    origins: list[str]
    """The origins of the web pages that may use the key."""
    rate_per_minute: int | None
    """The number of requests that the key may make in a minute; null for any number."""
    expires_at: str | None
    """The time from which the key is not valid."""
    created_at: str
    """The time when the key was made."""
    rotated_at: str | None
    """The time of the last rotation."""
    last_used_at: str | None
    """The time of the last use; stored at most once a minute."""


class NewApiKey(ApiKey):
    """A key with its text, which no later answer has."""

    model_config = example(**KEY, key="sk_0199c7a0-0000-7000-8000-000000000000_m8vXq…")

    key: str
    """The key, for `Authorization: Bearer KEY`."""


class ApiKeyList(Answer):
    """All keys, the oldest first."""

    model_config = example(keys=[KEY])

    keys: list[ApiKey]
    """The keys."""
