"""Finds the declared access of a request: the routes of an application in the order in which its router tries them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from starlette._utils import get_route_path  # the path that the router matches
from starlette.routing import compile_path
from starlette.types import Scope

from service.http.access import Access


@dataclass(frozen=True)
class DeclaredRoute:
    """A route with its access; None: the access of the route is not declared, and no caller has it."""

    name: str
    path: re.Pattern[str]
    methods: frozenset[str]
    access: Access | None


def declared_routes(app: FastAPI, accesses: Mapping[str, Access]) -> tuple[DeclaredRoute, ...]:
    """Return every route of an application, also those that are in no schema. accesses: name of the route -> access."""
    return tuple(
        DeclaredRoute(
            context.name or "",
            whole_path(context.path or ""),
            frozenset(context.methods or ()),
            accesses.get(context.name or ""),
        )
        for context in iter_route_contexts(app.routes)
    )


def whole_path(path: str) -> re.Pattern[str]:
    """Return the pattern of the path of a route. It matches a whole path, also with line breaks in its parameters.

    The pattern of the router also matches a path with one more line break at its end, and its `{name:path}` matches no
    line break.
    """
    return re.compile(compile_path(path)[0].pattern.removesuffix("$") + r"\Z", re.DOTALL)


def route_of(routes: tuple[DeclaredRoute, ...], scope: Scope) -> tuple[DeclaredRoute | None, str | None]:
    """Return the route that answers a request, and the collection in its address. Both may be None."""
    path, method = get_route_path(scope), scope["method"]
    for route in routes:
        if method in route.methods:
            match = route.path.match(path)
            if match:
                return route, match.groupdict().get("collection")
    return None, None
