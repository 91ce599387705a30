"""A parser that reads a request for another protocol as if it had no field `Upgrade` (RFC 9110, 7.8).

Clients ask with any request: Java's own client sends `Upgrade: h2c`. The library ends such a request at its head, and
leaves the body to the other protocol. Here the head is parsed again without the field, and then what follows it.
"""

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class RequestParser(httptools.HttpRequestParser):
    """The parser of a connection."""

    def __init__(self, connection: HttpToolsProtocol) -> None:
        self._events = _Events(connection)
        self._begin()

    def _begin(self) -> None:
        super().__init__(self._events)
        # a request with `Connection: close` is answered although more bytes follow it
        self.set_dangerous_leniencies(lenient_data_after_close=True)

    def feed_data(self, data: bytes) -> None:  # type: ignore[override]
        """Parse bytes; none after CONNECT, whose refusal is the last answer. Raises httptools.HttpParserError."""
        while data and not self._events.is_over:
            data = self._rest(data)

    def _rest(self, data: bytes) -> bytes:
        """Parse bytes up to the end of a head with the field. Return what is to be parsed then."""
        try:
            super().feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            head = self._events.head_again()
            self._begin()  # the head may have closed the connection
            return head + data[upgrade.args[0] :]
        return b""


class _Events:
    """Passes the events of a parser on, but for those of a head that is parsed again."""

    is_over = False
    """Whether the request was CONNECT."""

    def __init__(self, connection: HttpToolsProtocol) -> None:
        self.on_message_begin = connection.on_message_begin
        self.on_url = connection.on_url
        self.on_header = connection.on_header
        self.on_body = connection.on_body
        self._connection = connection
        self._is_parsed_again = False

    def on_headers_complete(self) -> None:
        connection = self._connection
        self.is_over = connection.parser.get_method() == b"CONNECT"
        self._is_parsed_again = connection.parser.should_upgrade() and not self.is_over
        if not self._is_parsed_again:
            connection.on_headers_complete()
        if self.is_over:
            connection.cycle.keep_alive = False

    def on_message_complete(self) -> None:
        if not self._is_parsed_again:
            self._connection.on_message_complete()

    def head_again(self) -> bytes:
        """Return the head without the field."""
        if not self._is_parsed_again:
            return b""
        connection, parser = self._connection, self._connection.parser
        first = b"%s %s HTTP/%s" % (parser.get_method(), connection.url, parser.get_http_version().encode())
        fields = [b"%s: %s" % field for field in connection.headers if field[0] != b"upgrade"]
        return b"\r\n".join([first, *fields, b"", b""])
