"""The `instance` of a problem: the path of its request as a URI reference (RFC 3986, 4.2)."""

import re
from urllib.parse import quote

from starlette.types import Scope

IN_PATHS = "/:@!$&'()*+,;="
"""Characters of a path that are not encoded, besides letters, digits and `-._~`."""
BARE_PERCENT = re.compile("%(?![0-9A-Fa-f]{2})")


def instance_of(scope: Scope) -> str:
    """Return the path of a request, as the client sent it where it is valid."""
    sent: bytes | None = scope.get("raw_path")
    return sent_path(sent) if sent is not None else sent_path(quote(scope["path"], IN_PATHS).encode())


def sent_path(path: bytes) -> str:
    """Return a path with what a path must not have percent-encoded. What is encoded already stays as it is."""
    encoded = BARE_PERCENT.sub("%25", quote(path, IN_PATHS + "%"))
    return f"/.{encoded}" if encoded.startswith("//") else encoded  # a reference that begins with // names a host
