"""A client of the HTTP API. Commands that send requests import it: `serve` starts without its library, httpx."""

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx
import orjson

from service.cli.failures import ERROR, USAGE, Failure, Refused

TIMEOUT = httpx.Timeout(300, connect=10)
"""Seconds. A response may take long because a large batch is encoded."""
LOCAL = ("127.0.0.1", "localhost", "::1")
"""Hosts that are reached without a proxy."""
LIMITS = httpx.Limits(keepalive_expiry=2)
"""Seconds after which an idle connection is not reused, because the server may be closing it."""
BUSY_TRIES = 10
BUSY_SECONDS = 10


class Service:
    """A client of the HTTP API. A call returns the decoded response or raises a Failure."""

    def __init__(self, client: httpx.Client, name: str, local: bool) -> None:
        self._client = client
        self._name = name
        self.local = local
        """Whether the service runs in this process."""

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        params: Mapping[str, Any] | None = None,
        raw: bytes | None = None,
    ) -> Any:
        """Return the response to a request; raw is an encoded JSON body. A 503 with Retry-After repeats the request.

        Raises Refused if the service responds with a problem, and Failure if it cannot be reached.
        """
        content = orjson.dumps(body) if body is not None else raw
        headers = {"Content-Type": "application/json"} if content is not None else {}
        for attempt in range(BUSY_TRIES):
            response = self._send(method, path, content=content, params=params, headers=headers)
            wait_seconds = response.headers.get("Retry-After", "")
            if response.status_code != 503 or not wait_seconds.isdigit() or attempt == BUSY_TRIES - 1:
                break
            time.sleep(min(int(wait_seconds), BUSY_SECONDS))
        return decode(response)

    def upload(self, path: str, lines: Iterable[bytes]) -> Any:
        """Return the response to a streamed NDJSON body. Raises the errors of `call` and of the lines."""
        return decode(self._send("POST", path, content=lines, headers={"Content-Type": "application/x-ndjson"}))

    @contextmanager
    def download(self, path: str) -> Iterator[Iterator[bytes]]:
        """Yield the parts of a long body. Raises the errors of `call`."""
        try:
            with self._client.stream("GET", path) as response:
                if not response.is_success:
                    response.read()
                    decode(response)
                yield response.iter_bytes()
        except httpx.TransportError as error:
            raise Failure(ERROR, f"the connection to {self._name} failed: {error}") from error

    def get_text(self, path: str) -> tuple[int, str]:
        """Return the status and text of a path that does not return JSON, such as /metrics."""
        response = self._send("GET", path)
        return response.status_code, response.text

    def _send(self, method: str, path: str, **more: Any) -> httpx.Response:
        try:
            return self._client.request(method, path, **more)
        except httpx.TimeoutException as error:
            raise Failure(ERROR, f"no response from {self._name} in time") from error
        except httpx.ConnectError as error:
            raise Failure(ERROR, f"no server at {self._name}") from error
        except httpx.TransportError as error:
            raise Failure(ERROR, f"the connection to {self._name} failed: {error}") from error


def decode(response: httpx.Response) -> Any:
    """Return the JSON of a response, None for 204. Raises Refused for a problem and Failure for any other response."""
    if response.status_code == 204:
        return None
    try:
        body = orjson.loads(response.content)
    except orjson.JSONDecodeError:
        body = None
    if response.is_success and body is not None:
        return body
    if not response.is_success and isinstance(body, dict) and "code" in body:
        errors = [f"  {error.get('pointer', '')}: {error.get('detail', '')}" for error in body.get("errors") or []]
        if response.status_code == 401:
            errors.append("  give the API key by SOFTSEEK_KEY or --key")
        raise Refused(response.status_code, str(body["code"]), str(body.get("detail", "")), errors)
    raise Failure(ERROR, f"status {response.status_code} without JSON: the response is not from a Softseek server")


def client_for(url: str, key: str | None = None) -> httpx.Client:
    """Return a client of the server at this address, with this API key.

    Raises Failure USAGE for an invalid HTTP address, and for a key that no header can have.
    """
    if key is not None and not (key.isascii() and key.isprintable() and " " not in key):
        raise Failure(USAGE, "the API key has characters that no key has")
    try:
        address = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise Failure(USAGE, f"--url: invalid address: {error}") from error
    if address.scheme not in ("http", "https") or not address.host:
        raise Failure(USAGE, "--url: expected an address such as http://127.0.0.1:8080")
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    direct = dict.fromkeys(f"all://[{host}]" if ":" in host else f"all://{host}" for host in LOCAL)
    reads_certificates = address.scheme == "https" or address.host not in LOCAL  # a proxy may need them
    return httpx.Client(
        base_url=address, timeout=TIMEOUT, limits=LIMITS, mounts=direct, headers=headers, verify=reads_certificates
    )


def client_of_socket(path: str) -> httpx.Client:
    """Return a client of the server that listens on this Unix socket."""
    transport = httpx.HTTPTransport(uds=path, limits=LIMITS, verify=False)  # without TLS: no certificates are read
    return httpx.Client(transport=transport, base_url="http://softseek", timeout=TIMEOUT)
