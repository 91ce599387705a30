"""What `serve` requires before it listens: an API key, or an address that only this machine reaches."""

import ipaddress
import socket
from typing import TYPE_CHECKING

from service.cli import show
from service.cli.failures import USAGE, Failure

if TYPE_CHECKING:
    from service.runtime.runtime import Runtime
    from service.settings import Settings


def refuse_unprotected(settings: "Settings", listening: socket.socket, makes_admin_key: bool) -> None:
    """Raise Failure USAGE where `protect` would, if that is known before the data directory is opened or made.

    A directory without a database has no keys. To make one takes minutes, because the files of the encoder are made.
    """
    from service.storage.database import DATABASE_FILE

    if settings.insecure or settings.admin_key is not None or makes_admin_key:
        return
    if settings.role != "all" or settings.database is not None or (settings.data / DATABASE_FILE).exists():
        return
    address = listening.getsockname()[0]
    if not is_loopback(address):
        listening.close()
        raise _unprotected(address)


def protect(runtime: "Runtime", listening: socket.socket, makes_admin_key: bool) -> None:
    """Make the admin key of the settings valid, or make an admin key in a file if there is no key and that is wanted.

    Raises Failure USAGE without a key, for an address that other machines reach, unless the setting `insecure` is on.
    """
    from service.keys.actions import adopt_admin_key, make_admin_key_file

    made = None
    if not runtime.settings.only_reads:  # whose keys are those of the writer
        adopt_admin_key(runtime)
        made = make_admin_key_file(runtime) if makes_admin_key else None
    if made is not None:
        show.notice(f"an API key with the scope admin is in the file {made}")
    if len(runtime.keyring):
        return
    address = listening.getsockname()[0]
    if is_loopback(address):
        show.notice("there are no API keys: every program of this machine may do everything; see softseek keys")
    elif runtime.settings.insecure:
        show.notice(f"INSECURE: there are no API keys, and every program that reaches {address} may do everything")
    else:
        raise _unprotected(address)


def _unprotected(address: str) -> Failure:
    message = f"other machines reach the address {address}, and there are no API keys"
    ways = "make a key with `softseek keys create --name admin --scopes admin`, or set SOFTSEEK_ADMIN_KEY"
    return Failure(USAGE, message, [ways, "--insecure starts the server without keys: every request may do everything"])


def is_loopback(address: str) -> bool:
    """Return whether only this machine reaches an IP address."""
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback
