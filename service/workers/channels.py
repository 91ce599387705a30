"""The sockets between the process of the data directory and a worker: connections of clients one way, messages back."""

import json
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from service.settings import DATABASE_VARIABLE, Settings

READY = {"ready": True}
"""The first message of a worker: it takes connections."""
RUN = "run"
"""The first argument of a process that is a single worker."""
CONNECTION = b"c"
CELLS_FILE, FEED = "cells", "feed"
"""The file of the cells and the folder of the feed, in the folder of the workers."""
MOST_START_BYTES = 16_384
SOCKETS = 2


@dataclass(frozen=True)
class Start:
    """What a worker is told."""

    worker: int
    """Its number, from 1; the process of the data directory has 0."""
    folder: str
    """The folder of the workers."""
    address: str
    """The Unix socket of the process of the data directory."""
    max_connections: int
    connections: int = -1
    """The socket from which it takes connections, as a descriptor of its own process."""
    messages: int = -1
    """The socket to which it sends messages."""

    def as_json(self) -> str:
        """Return all as JSON."""
        return json.dumps(vars(self))

    @classmethod
    def of(cls, text: str, descriptors: Sequence[int] | None = None) -> "Start":
        """Return what `as_json` returned, with these descriptors of connections and messages."""
        start = cls(**json.loads(text))
        if descriptors is None:
            return start
        return replace(start, connections=descriptors[0], messages=descriptors[1])


def settings_of(text: str) -> Settings:
    """Return settings that were checked in another process, from JSON."""
    values: dict[str, Any] = json.loads(text)
    address = os.environ.get(DATABASE_VARIABLE)
    database = SecretStr(address) if address is not None else None
    return Settings.model_construct(**values | {"data": Path(values["data"]), "database": database})


def send_connection(channel: socket.socket, connection: socket.socket) -> None:
    """Hand a connection over to a worker. Raises OSError, such as BlockingIOError where the channel is full."""
    socket.send_fds(channel, [CONNECTION], [connection.fileno()])


def receive_connection(channel: socket.socket) -> socket.socket | None:
    """Return a connection that was handed over; None at the end. Raises BlockingIOError where there is none."""
    data, descriptors, _, _ = socket.recv_fds(channel, len(CONNECTION), 1)
    if not data:
        return None
    return socket.socket(fileno=descriptors[0])
