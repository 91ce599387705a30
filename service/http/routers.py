"""Routers of the slices, and their inclusion in an application."""

from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from starlette.routing import Route

from service.http.declared_routes import whole_path
from service.http.requests import MAX_BODY_BYTES, StrictRoute


def new_router(prefix: str, tag: str) -> APIRouter:
    """Return a router of an API: bodies are strict JSON, and no longer than MAX_BODY_BYTES."""
    return router_of(prefix=prefix, tags=[tag], route_class=StrictRoute)


def router_of(**options: Any) -> APIRouter:
    """Return a router with the limit of bodies. options: those of `APIRouter`."""
    return APIRouter(max_body_size=MAX_BODY_BYTES, generate_unique_id_function=operation_id, **options)


def operation_id(route: APIRoute) -> str:
    """Return the operation id of a route: the name of its function. A test checks that it is unique."""
    return route.name


def add_routes(app: FastAPI, *routers: APIRouter) -> None:
    """Add the routes of routers, as they are, to an application. Its routes then match whole paths (`whole_path`).

    `FastAPI.include_router` makes each route again for every application, with all validators of its types: a tenth
    of a second at the first request.
    """
    for router in routers:
        app.router.routes.extend(router.routes)
    for route in app.router.routes:
        if isinstance(route, Route):
            route.path_regex = whole_path(route.path)
