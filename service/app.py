"""Creates the FastAPI application: routes, middleware, start-up and shutdown."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

from fastapi import FastAPI
from sqlalchemy.exc import SQLAlchemyError
from starlette.concurrency import run_in_threadpool
from starlette.types import Scope

from index.filters.parser import build_parser
from service.access import ACCESS
from service.aliases import routes as aliases
from service.audit import routes as audit
from service.collections import routes as collections
from service.collections import synonyms
from service.documents import routes as documents
from service.documents.imports import interrupted_imports, resume_imports
from service.documents.indexing import resume_interrupted, resume_pending
from service.documents.schemas import DocumentIn
from service.erasures import routes as erasures
from service.erasures.actions import resume_erasures, retry_erasures
from service.exports import routes as exports
from service.feedback import routes as feedback
from service.feedback.schemas import EventIn, JudgmentIn
from service.http import problems
from service.http.allowed_hosts import AllowedHosts
from service.http.authorisation import Authorisation
from service.http.before_answers import BeforeAnswers
from service.http.body_limit import BodyLimit
from service.http.compression import Compression
from service.http.declared_routes import declared_routes
from service.http.direct_answers import DirectAnswers
from service.http.head_requests import HeadRequests
from service.http.only_reads import OnlyReads
from service.http.openapi import openapi, serve_schema
from service.http.overload import Overload
from service.http.request_counter import RequestCounter
from service.http.routers import add_routes
from service.http.same_origin import SameOrigin
from service.http.security_headers import SecurityHeaders
from service.http.watermarks import Watermarks
from service.judging import routes as judging
from service.keys import actions as key_actions
from service.keys import routes as keys
from service.models import routes as models
from service.operations import health
from service.operations.authority import KeyAuthority, SearchAuthority
from service.operations.housekeeping import Housekeeping
from service.operations.idempotency import Idempotency
from service.queries import routes as queries
from service.recommend import routes as recommend
from service.rules import routes as rules
from service.runtime.log_lines import configure_logging
from service.runtime.runtime import Runtime, going_on_a_full_disk
from service.runtime.search_runtime import SearchRuntime
from service.search import routes as search
from service.settings import Settings, names_in
from service.snapshots import routes as snapshots
from service.snapshots.stored import delete_unfinished
from service.suggestions import routes as suggestions
from service.tasks import routes as tasks
from service.training import routes as training
from service.training.actions import resume_training
from service.web import routes as web

DESCRIPTION = "A search engine whose ranking is one differentiable attention function, trained by feedback."
SLICES = (
    search, recommend, documents, collections, synonyms, rules, suggestions, feedback, judging, queries, training,
    models, aliases, erasures, tasks, keys, audit, snapshots, exports, health, web,
)  # fmt: skip
"""Modules with routes, in the order of matching. The most frequent requests match first."""
DIRECT = {
    "search": search.search_directly,
    "post_events": feedback.post_events_directly,
    "livez": health.livez_directly,
}
"""Operations that are answered without the routing and the validation of the framework, where their bodies allow it."""


def create_app(
    settings: Settings,
    runtime: Runtime | None = None,
    trains: bool = True,
    owner: bool = False,
    before_answers: Callable[[], None] | None = None,
) -> FastAPI:
    """Return the application. Without a runtime, it opens its own runtime at start and closes it at the end.

    trains: whether training runs and snapshots start by their schedules. owner: whether every request is of the owner
    and needs no key, because only the owner reaches the server. before_answers: is called before every answer that may
    tell of a change.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        opened = runtime if runtime is not None else await run_in_threadpool(lambda: Runtime.open(settings))
        app.state.runtime = opened
        app.state.authority = KeyAuthority(opened)
        if not owner:
            await run_in_threadpool(key_actions.adopt_admin_key, opened)
        await run_in_threadpool(_resume, opened)
        await run_in_threadpool(build_parser)  # otherwise the first filter waits for it
        often = {"resume_documents": resume_interrupted}
        housekeeping = Housekeeping(opened, trains, {"erasures": retry_erasures}, often)
        try:
            yield
        finally:
            await run_in_threadpool(housekeeping.stop)
            with suppress(SQLAlchemyError):  # a database that is away does not keep the service from ending
                await run_in_threadpool(key_actions.store_last_uses, opened, 0)
            if runtime is None:
                await run_in_threadpool(opened.close)

    configure_logging(settings.log_level)
    app = _application(lifespan)
    problems.install(app)
    add_routes(app, *(module.router for module in SLICES), search.several)
    app.add_middleware(DirectAnswers, answers=DIRECT)  # the first that is added is the last that sees a request
    app.add_middleware(Idempotency)
    _add_middleware(app, settings, owner)
    if before_answers is not None:
        app.add_middleware(BeforeAnswers, run=before_answers)
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    return app


def create_worker_app(settings: Settings, runtime: SearchRuntime) -> FastAPI:
    """Return the application of a worker, which answers searches, recommendations and suggestions."""
    app = create_reading_app(settings)
    app.state.runtime, app.state.authority = runtime, SearchAuthority(runtime)
    return app


def create_reading_app(settings: Settings, lifespan: Any = None, refuses_others: bool = False) -> FastAPI:
    """Return an application that answers the requests that read. `app.state` lacks its runtime and its authority.

    refuses_others: whether other requests are refused with 421.
    """
    app = _application(lifespan)
    problems.install(app)
    add_routes(app, search.router, search.several, recommend.router, suggestions.router, health.router)
    app.add_middleware(DirectAnswers, answers={name: DIRECT[name] for name in ("search", "livez")})
    if refuses_others:
        app.add_middleware(OnlyReads)
    _add_middleware(app, settings, owner=False)
    return app


def _application(lifespan: Any = None) -> FastAPI:
    app = FastAPI(
        title="Softseek",
        version="1",
        description=DESCRIPTION,
        lifespan=lifespan,
        redirect_slashes=False,
        openapi_url=None,  # `serve_schema` serves it
        docs_url=None,  # service.web serves /docs without another host
        redoc_url=None,
    )
    serve_schema(app, "/openapi.json")
    return app


def _add_middleware(app: FastAPI, settings: Settings, owner: bool) -> None:
    """Add the middleware of every process; the last that is added is the first that sees a request."""
    app.add_middleware(Watermarks, find=lambda scope: getattr(scope["app"].state, "runtime", None))
    app.add_middleware(Compression)
    app.add_middleware(BodyLimit)
    app.add_middleware(Overload, is_full=_is_full)
    app.add_middleware(SameOrigin)
    app.add_middleware(AllowedHosts, names=(settings.host, *settings.host_names))
    app.add_middleware(RequestCounter)
    app.add_middleware(
        Authorisation,
        routes=lambda: declared_routes(app, ACCESS),
        owner=owner,
        insecure=settings.insecure,
        cors_origins=names_in(settings.cors_origins),
    )
    app.add_middleware(SecurityHeaders)
    app.add_middleware(HeadRequests)


def _is_full(scope: Scope) -> bool:
    """Return whether the queue of searches has no place."""
    runtime: SearchRuntime | None = getattr(scope["app"].state, "runtime", None)
    return runtime is not None and runtime.search_pool.is_full


def _resume(runtime: Runtime) -> None:
    """Resume the work of an earlier process. On a full disk it waits for the next start.

    An erasure goes first, before a training run reads its staged feedback again. The tasks of interrupted imports are
    read before: each new task may delete the oldest one.
    """
    delete_unfinished(runtime.settings.data)
    interrupted = interrupted_imports(runtime)
    for resume in (resume_erasures, resume_pending, partial(resume_imports, interrupted=interrupted), resume_training):
        with runtime.jobs.resuming(), going_on_a_full_disk():
            resume(runtime)


def _openapi(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI schema, made at the first request."""
    if app.openapi_schema is None:
        app.openapi_schema = openapi(app, (DocumentIn, EventIn, JudgmentIn), ACCESS)
    return app.openapi_schema
