"""A server that takes connections from a function, not from a listening socket of its own."""

import asyncio
import socket
from typing import Any

import uvicorn


class AcceptingServer(uvicorn.Server):
    """Serves connections that `serve_connection` is given, besides the sockets that `run` is given."""

    async def serve_connection(self, connection: socket.socket) -> None:
        """Answer the requests of a connection."""

        def protocol() -> Any:
            of_connections: Any = self.config.http_protocol_class
            made = of_connections(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)
            made.is_counted = True
            return made

        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().connect_accepted_socket(protocol, connection)
