"""Free ports. Apart from the rest, because a store's environment imports it and has none of our libraries."""

import socket


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody listened on just now."""
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        port: int = asked.getsockname()[1]
        return port
