"""Serves the three pages, the API reference at /docs, and their static files.

The scripts of the pages use only the public /v1 API. The server fills in the query, the collections and a count.
The API reference is Swagger UI. The package `fastapi_offline` contains its files, so it works without a network.
"""

from pathlib import Path
from typing import Any

from fastapi import Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles
from starlette.templating import Jinja2Templates

from service.http.routers import router_of
from service.runtime.dependency import Running
from service.runtime.runtime import DEFAULT_COLLECTION, Runtime

HERE = Path(__file__).parent
SWAGGER_UI = ("swagger-ui-bundle.js", "swagger-ui.css")
"""The files of Swagger UI that /docs uses."""
SECURITY = {
    "Content-Security-Policy": (
        "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
    ),
    "Referrer-Policy": "same-origin",  # the sites of documents do not receive the query
    "X-Content-Type-Options": "nosniff",
}
REFERENCE_SECURITY = SECURITY | {
    "Content-Security-Policy": SECURITY["Content-Security-Policy"]
    + "; img-src 'self' data:; style-src 'self' 'unsafe-inline'"
}
"""The style sheet of Swagger UI has icons in data: addresses, and its script sets styles inline."""
REVALIDATED = {"Cache-Control": "no-cache"}
"""Browsers check a cached copy by its ETag, so that no browser mixes old and new scripts after an upgrade."""

router = router_of(include_in_schema=False)
templates = Jinja2Templates(HERE / "templates")
static_files = StaticFiles(directory=HERE / "static")
swagger_files = StaticFiles(packages=[("fastapi_offline", "static")])

READ = ["GET", "HEAD"]


@router.api_route("/", methods=READ)
async def search_page(request: Request, runtime: Running, c: str = DEFAULT_COLLECTION, q: str = "") -> Response:
    """Return the search page. Its script runs the query q, if there is one."""
    return _page(request, runtime, "search.html", c, q=q)


@router.api_route("/queries", methods=READ)
async def queries_page(request: Request, runtime: Running, c: str = DEFAULT_COLLECTION) -> Response:
    """Return the page of queries: what people search and click."""
    return _page(request, runtime, "queries.html", c)


@router.api_route("/learning", methods=READ)
async def learning_page(request: Request, runtime: Running, c: str = DEFAULT_COLLECTION) -> Response:
    """Return the learning page: counts, training, models."""
    return _page(request, runtime, "learning.html", c)


@router.api_route("/static/{path:path}", methods=READ)
async def static(request: Request, path: str) -> Response:
    """Return a static file, or 304 if the browser has it."""
    response = await static_files.get_response(path, request.scope)
    response.headers.update(SECURITY | REVALIDATED)
    return response


@router.api_route("/docs", methods=READ)
async def reference_page(request: Request) -> Response:
    """Return the API reference: every endpoint with its schemas, and a form that sends requests."""
    return templates.TemplateResponse(request, "reference.html", {}, headers=REFERENCE_SECURITY | REVALIDATED)


@router.api_route("/docs/{name}", methods=READ)
async def reference_file(request: Request, name: str) -> Response:
    """Return a file of Swagger UI, or 304 if the browser has it."""
    if name not in SWAGGER_UI:
        raise HTTPException(404)
    response = await swagger_files.get_response(name, request.scope)
    response.headers.update(SECURITY | REVALIDATED)
    return response


@router.api_route("/favicon.ico", methods=READ)
async def favicon(request: Request) -> Response:
    """Return the icon at the default path of browsers."""
    return await static(request, "favicon.svg")


def _page(request: Request, runtime: Runtime, template: str, name: str, **more: Any) -> Response:
    is_locked = len(runtime.keyring) > 0  # pages are open to all, so pages of a service with keys have no data
    state = None if is_locked else runtime.find_collection(name)
    context = {
        "locked": is_locked,
        "collection": name,
        "collections": [] if is_locked else sorted(runtime.collections),
        "documents": state.generation.count if state else None,
        **more,
    }
    headers = SECURITY | {"Cache-Control": "no-store"}
    return templates.TemplateResponse(request, template, context, 200 if state or is_locked else 404, headers)
