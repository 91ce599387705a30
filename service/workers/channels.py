"""The sockets between the process of the data directory and a worker: connections of clients one way, messages back."""

import json
import socket
from dataclasses import dataclass

READY = {"ready": True}
"""The first message of a worker: it takes connections."""
CONNECTION = b"c"


@dataclass(frozen=True)
class Start:
    """What a worker is told on its command line."""

    settings: str
    """The settings as JSON."""
    worker: int
    """Its number, from 1; the process of the data directory has 0."""
    connections: int
    """The socket from which it takes connections, as a descriptor."""
    messages: int
    """The socket to which it sends messages, as a descriptor."""
    folder: str
    """The folder of the feed."""
    address: str
    """The Unix socket of the process of the data directory."""
    max_connections: int

    def as_json(self) -> str:
        """Return all as JSON."""
        return json.dumps(vars(self))

    @classmethod
    def of(cls, text: str) -> "Start":
        """Return what `as_json` returned."""
        return cls(**json.loads(text))


def send_connection(channel: socket.socket, connection: socket.socket) -> None:
    """Hand a connection over to a worker. Raises OSError, such as BlockingIOError where the channel is full."""
    socket.send_fds(channel, [CONNECTION], [connection.fileno()])


def receive_connection(channel: socket.socket) -> socket.socket | None:
    """Return a connection that was handed over; None at the end. Raises BlockingIOError where there is none."""
    data, descriptors, _, _ = socket.recv_fds(channel, len(CONNECTION), 1)
    if not data:
        return None
    return socket.socket(fileno=descriptors[0])
