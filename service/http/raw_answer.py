"""Problems as the bytes of a response, for answers that the application does not make."""

import orjson

from service.http.instances import sent_path
from service.http.problems import Problem
from service.http.security_headers import HEADERS


def raw_answer(problem: Problem, path: bytes = b"/", close: bool = True, is_head: bool = False) -> bytes:
    """Return a problem as the bytes of an HTTP/1.1 response. is_head: it answers HEAD, and has no body."""
    body = orjson.dumps(problem.body(sent_path(path)))
    head = {
        "content-type": "application/problem+json",
        "content-length": str(len(body)),
        **{name.decode(): value.decode() for name, value in HEADERS},
        **problem.headers,
        **({"connection": "close"} if close else {}),
    }
    lines = "".join(f"{name.lower()}: {value}\r\n" for name, value in head.items())
    return f"HTTP/1.1 {problem.status} {problem.title}\r\n{lines}\r\n".encode() + (b"" if is_head else body)
