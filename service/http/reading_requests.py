"""The requests that read a collection and change nothing: worker processes answer them."""

import re

from starlette.types import Scope

PATHS = re.compile(r"/v1/(?:collections/([^/]+)/(search|recommend|suggestions)|(multi-search))")
METHODS = {"search": ("POST", "GET"), "recommend": ("POST",), "suggestions": ("GET",), "multi-search": ("POST",)}


def is_reading(scope: Scope) -> bool:
    """Return whether a request is one of these."""
    asked = PATHS.fullmatch(scope["path"])
    return asked is not None and scope["method"] in METHODS[asked[2] or asked[3]]


def collection_of(scope: Scope) -> str | None:
    """Return the name of the collection that one of these requests reads; None for several."""
    asked = PATHS.fullmatch(scope["path"])
    return asked and asked[1]
