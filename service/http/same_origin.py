"""Middleware that lets browsers change data only from the service's own pages, where no key protects the data.

A search by GET that is logged is a change. An export changes nothing, and is refused too: it reads all content.

A browser sends a key only for a page that has the key, so requests with a key need no such protection.
"""

from starlette.datastructures import QueryParams
from starlette.types import ASGIApp, Receive, Scope, Send

from service.http.access import ASKED
from service.http.problems import Problem, answer

FOREIGN = (b"cross-site", b"same-site")
"""Values of Sec-Fetch-Site in a request of another origin's page. A request without a page has `none`."""
SAFE = ("GET", "HEAD", "OPTIONS")
NOT_LOGGED = ("false", "0")


class SameOrigin:
    """Refuses changes that a browser sends for a page of another site, without an API key."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked = scope.get(ASKED)
        if asked is not None and asked.caller.key_id is not None:
            await self.app(scope, receive, send)
            return
        headers = dict(scope.get("headers", ()))
        origin = headers.get(b"origin", b"")
        foreign = headers.get(b"sec-fetch-site") in FOREIGN or (
            origin and origin.partition(b"://")[2] != headers.get(b"host", b"")
        )
        if scope["type"] == "http" and foreign and _is_protected(scope):
            detail = "changes, logged searches and exports are only for the service's own pages and for programs"
            problem = Problem(403, "cross_origin", detail)
            await answer(problem, scope)(scope, receive, send)
            return
        await self.app(scope, receive, send)


def _is_protected(scope: Scope) -> bool:
    """Return whether a request changes something, or reads all content."""
    asked = scope.get(ASKED)
    operation = "" if asked is None else asked.operation
    if operation == "get_search":
        wanted = QueryParams(scope["query_string"]).getlist("log")
        return any(value.lower() not in NOT_LOGGED for value in wanted)
    return scope["method"] not in SAFE or operation == "export_everything"
