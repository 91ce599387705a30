"""API keys for tests: made by a key with `admin`, and sent with a request."""

from dataclasses import dataclass
from typing import Any

from fastapi.testclient import TestClient

from service.keys.actions import reload
from service.keys.repository import change_key
from tests.service.client import good, runtime_of

REFUSALS = ("unauthorized", "scope_missing", "key_is_filtered", "origin_not_allowed", "keys_needed", "rate_limited")
"""The codes with which the middleware refuses a request."""


def bearer(key: str) -> dict[str, str]:
    """Return the header of a key."""
    return {"Authorization": f"Bearer {key}"}


@dataclass(frozen=True)
class Keys:
    """Makes keys with a key that may do everything."""

    client: TestClient
    admin: str

    @classmethod
    def first(cls, client: TestClient) -> "Keys":
        """Make the first key of a service."""
        made = good(client.post("/v1/keys", json={"name": "first", "scopes": ["admin"]}))
        return cls(client, made["key"])

    def make(self, *scopes: str, **more: Any) -> dict[str, Any]:
        """Return a new key with its text."""
        body = {"name": "made by a test", "scopes": list(scopes), **more}
        made: dict[str, Any] = good(self.client.post("/v1/keys", json=body, headers=bearer(self.admin)))
        return made

    def headers(self, *scopes: str, **more: Any) -> dict[str, str]:
        """Return the header of a new key."""
        return bearer(self.make(*scopes, **more)["key"])

    def expire(self, key: dict[str, Any]) -> None:
        """Let a key have expired."""
        runtime = runtime_of(self.client)
        with runtime.database.write() as connection:
            change_key(connection, key["id"], {"expires_at": "2026-01-01T00:00:00.000Z"})
        reload(runtime)

    def act(self, method: str, path: str, body: Any = None) -> Any:
        """Return the response to a request with the first key."""
        return self.client.request(method, path, json=body, headers=bearer(self.admin))
