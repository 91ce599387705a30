"""Middleware that lets browsers change data only from the service's own pages, where no key protects the data.

A browser sends a key only for a page that has the key, so requests with a key need no such protection.
"""

from starlette.types import ASGIApp, Receive, Scope, Send

from service.http.access import ASKED
from service.http.problems import Problem, answer


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
        foreign = headers.get(b"sec-fetch-site") == b"cross-site" or (
            origin and origin.partition(b"://")[2] != headers.get(b"host", b"")
        )
        if scope["type"] == "http" and scope["method"] not in ("GET", "HEAD", "OPTIONS") and foreign:
            detail = "changes are accepted only from the service's own pages and from programs"
            problem = Problem(403, "cross_origin", detail)
            await answer(problem, scope["path"])(scope, receive, send)
            return
        await self.app(scope, receive, send)
