"""Free ports. A separate file, because environments of stores import it without our libraries."""

import socket


def free_port() -> int:
    """Return a port of 127.0.0.1 without a listener."""
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        port: int = asked.getsockname()[1]
        return port
