"""Cross-origin requests of web pages: which origins may read an answer, and the answers to preflights.

A preflight has no key. Its answer allows an origin that the setting or any key names, and says nothing else.
"""

from starlette.datastructures import MutableHeaders
from starlette.types import Message

METHODS = "GET, POST, PUT, PATCH, DELETE"
HEADERS = "Authorization, Content-Type, Idempotency-Key, If-None-Match, X-Softseek-Watermark"
EXPOSED = "ETag, Location, Retry-After, X-Softseek-Watermark"
MAX_AGE_SECONDS = 600
"""Time for which a browser keeps the answer to a preflight."""


def preflight_headers(origin: str, allowed: bool) -> dict[str, str]:
    """Return the headers of the answer to OPTIONS."""
    headers = {"Vary": "Origin"}
    if allowed:
        headers |= {
            "Access-Control-Allow-Origin": origin,
            "Access-Control-Allow-Methods": METHODS,
            "Access-Control-Allow-Headers": HEADERS,
            "Access-Control-Max-Age": str(MAX_AGE_SECONDS),
        }
    return headers


def readable_by(origin: str) -> dict[str, str]:
    """Return the headers that let the pages of this origin read an answer."""
    return {"Access-Control-Allow-Origin": origin, "Access-Control-Expose-Headers": EXPOSED}


def allow_reading(start: Message, origin: str) -> None:
    """Add the headers that let the pages of this origin read an answer. start: its first message, which is changed."""
    start["headers"] = list(start.get("headers", ()))
    headers = MutableHeaders(raw=start["headers"])
    headers.update(readable_by(origin))
    headers.add_vary_header("Origin")
