"""The API key of a command: `--key`, which every command with `--url` has, else the setting `key`."""

from contextvars import ContextVar
from typing import Annotated, Any

import typer

_GIVEN: ContextVar[str | None] = ContextVar("given_key", default=None)


def given_key() -> str | None:
    """Return the key that the option `--key` gave to this command, or None."""
    return _GIVEN.get()


def take_keys(command: Any) -> Any:
    """Return the command or group with the option `--key` on every command that has `--url`."""
    for inner in getattr(command, "commands", {}).values():
        take_keys(inner)
    if any(parameter.name == "url" for parameter in command.params):
        command.params.append(_key_option())
    return command


def _remember(key: str | None) -> str | None:
    _GIVEN.set(key)
    return key


def _key_option() -> Any:
    """Return the option. Typer makes it from the signature of a command."""

    def command(
        key: Annotated[
            str | None,
            typer.Option(
                "--key",
                callback=_remember,
                expose_value=False,
                help="The API key for the server; better SOFTSEEK_KEY, which other users of this machine do not see.",
            ),
        ] = None,
    ) -> None:
        """The command of which only the option is used."""

    with_option = typer.Typer()
    with_option.command()(command)
    made: Any = typer.main.get_command(with_option)
    return made.params[0]
