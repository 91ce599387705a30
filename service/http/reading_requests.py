"""The requests that read a collection and change nothing: worker processes answer them."""

import re

from starlette.types import Scope

PATHS = re.compile(r"/v1/(?:collections/([^/]+)/(search|recommend|suggestions)|(multi-search))")
READ = ("GET", "HEAD")
METHODS = {"search": ("POST", *READ), "recommend": ("POST",), "suggestions": READ, "multi-search": ("POST",)}


def reading_request(scope: Scope) -> re.Match[str] | None:
    """Return the match of PATHS, whose group 1 is the collection, None for several; None for every other request."""
    asked = PATHS.fullmatch(scope["path"])
    return asked if asked and scope["method"] in METHODS[asked[2] or asked[3]] else None
