"""Problems as the bytes of a response, for answers that the application does not make."""

import orjson

from service.http.problems import Problem


def raw_answer(problem: Problem, path: str = "/", close: bool = True) -> bytes:
    """Return a problem as the bytes of an HTTP/1.1 response."""
    body = orjson.dumps(problem.body(path))
    head = {
        "content-type": "application/problem+json",
        "content-length": str(len(body)),
        "x-content-type-options": "nosniff",
        "cache-control": "no-store",
        **problem.headers,
        **({"connection": "close"} if close else {}),
    }
    lines = "".join(f"{name.lower()}: {value}\r\n" for name, value in head.items())
    return f"HTTP/1.1 {problem.status} {problem.title}\r\n{lines}\r\n".encode() + body
