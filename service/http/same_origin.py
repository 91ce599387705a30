"""Middleware: browsers may change data from the service's own pages only."""

from starlette.types import ASGIApp, Receive, Scope, Send

from service.http.problems import Problem, answer


class SameOrigin:
    """Refuses changes that another website asks a browser for: as long as no key is needed, the browser is the key."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope.get("headers", ()))
        origin = headers.get(b"origin", b"")
        foreign = headers.get(b"sec-fetch-site") == b"cross-site" or (
            origin and origin.partition(b"://")[2] != headers.get(b"host", b"")
        )
        if scope["type"] == "http" and scope["method"] not in ("GET", "HEAD", "OPTIONS") and foreign:
            problem = Problem(403, "cross_origin", "changes are taken from the service's own pages and from programs")
            await answer(problem, scope["path"])(scope, receive, send)
            return
        await self.app(scope, receive, send)
