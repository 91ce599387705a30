"""Answers to clients that speak HTTP/1.0: no chunks, which they do not know, and no interim answer.

The answer ends with the connection, which the server closes after it (RFC 9112, 6.3). Such a client cannot tell an
answer that was cut off; a whole export ends with a record of its own. The length of the head is not compared with the
body.
"""

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

EARLIER = "1.0"


class _UntilClose(int):
    """The length of an answer that ends with the connection, in place of a number of bytes: every length fits."""

    def __lt__(self, other: int) -> bool:
        return False

    def __sub__(self, other: int) -> "_UntilClose":
        return self

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = int.__hash__


def without_chunks(cycle: RequestResponseCycle) -> None:
    """Let the answer of a cycle, none of which was sent, end with the connection."""
    cycle.chunked_encoding = False
    cycle.expected_content_length = _UntilClose()
