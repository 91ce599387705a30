"""The settings of the server of every process of the service."""

from typing import Any

import uvicorn

LIVE = "/livez"
"""The path of the check of liveness, which every process answers itself."""
DRAIN_SECONDS = 10
"""Time for open requests and streams to end when a process stops."""


def server_config(app: Any, connections: type) -> uvicorn.Config:
    """Return the settings of a server. connections: the class of its connections, from `service.http.connection`."""
    return uvicorn.Config(
        app,
        loop="uvloop",
        ws="none",
        http=connections,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=DRAIN_SECONDS,
    )
