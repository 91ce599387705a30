"""The process that workers are forked from. It has imported and loaded what all of them need, and has a single thread.

So a worker is ready in a moment, and the workers share the memory of the libraries and of the encoder's weights.
"""

import os
import signal
import socket
import sys
from contextlib import suppress

import structlog

from index.encoding.encoder import Encoder, load_encoder
from service.runtime.garbage import leave_out_what_exists
from service.runtime.log_lines import configure_logging
from service.settings import Settings
from service.storage.database import ENCODERS
from service.workers.channels import MOST_START_BYTES, RUN, SOCKETS, Start, settings_of
from service.workers.worker import run

WARM_UP = "a query"
log = structlog.get_logger()


def serve(descriptor: int, settings_text: str) -> None:
    """Fork a worker for each order that comes on a socket, and answer its PID; end when the socket ends.

    descriptor: of the socket. settings_text: the settings as JSON.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the end of the socket tells when to end
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no worker stays as a zombie
    settings = settings_of(settings_text)
    configure_logging(settings.log_level)
    encoder = _loaded(settings)
    leave_out_what_exists()  # a collection in a worker would also copy the pages of all objects
    orders = socket.socket(fileno=descriptor)
    while True:
        text, descriptors, _, _ = socket.recv_fds(orders, MOST_START_BYTES, SOCKETS)
        if not text:
            _wait_for_workers()
            return
        start = Start.of(text.decode(), descriptors)
        pid = os.fork()
        if not pid:
            orders.close()
            _become(start, settings_text, settings, encoder)
        for one in descriptors:
            os.close(one)
        orders.sendall(f"{pid}\n".encode())


def _wait_for_workers() -> None:
    with suppress(ChildProcessError):  # there is none, or the last has ended: SIGCHLD is ignored
        os.wait()


def _loaded(settings: Settings) -> Encoder | None:
    """Return the encoder, after its first query, which loads what is loaded late; None if it cannot be forked."""
    encoder = load_encoder(settings.encoder, settings.encoder_precision, settings.data / ENCODERS)
    encoder.encode_queries([WARM_UP])
    return encoder if len(os.listdir("/proc/self/task")) == 1 else None  # other threads do not exist after a fork


def _become(start: Start, settings_text: str, settings: Settings, encoder: Encoder | None) -> None:
    """Be a worker until it ends."""
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        if encoder is None:
            for one in (start.connections, start.messages):
                os.set_inheritable(one, True)
            os.execv(sys.executable, [sys.executable, "-m", "service.workers", RUN, start.as_json(), settings_text])
        run(start, settings, encoder)
        code = 0
    except Exception:
        log.exception("worker_failed")
    finally:
        os._exit(code)
