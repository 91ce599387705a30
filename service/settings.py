"""The settings of the service: command line flags, then SOFTSEEK_* in the environment, then .env, then the defaults.

`service.cli` reads them once and passes them on as an argument. An unknown SOFTSEEK_* name is an error, so that a
misspelled name does not silently leave the default. A test compares docs/settings.md with this module.
"""

import os
from pathlib import Path
from typing import Annotated, Literal

from dotenv import dotenv_values
from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from index.encoding.model_files import DEFAULT_MODEL
from index.encoding.precision import Precision

PREFIX = "SOFTSEEK_"


class Settings(BaseSettings):
    """The settings of a service process."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_file=".env", extra="ignore", frozen=True)

    data: Path = Field(Path("./data"), description="The data directory. It belongs to a single process at a time.")
    host: str = Field("127.0.0.1", description="The address to listen on.")
    allowed_hosts: str = Field(
        "localhost", description="Further names that clients may use for this service, by comma; `*` is every name."
    )
    port: Annotated[int, Field(ge=0, le=65535)] = Field(8080, description="The port to listen on; 0 is any free port.")
    encoder: str = Field(
        DEFAULT_MODEL,
        description="The sentence-transformers model, by name or folder. `hashing` needs no weights and is for tests.",
    )
    encoder_precision: Precision = Field(
        "auto", description="The number format of the encoder. Vectors of all precisions of a model can be compared."
    )
    search_threads: Annotated[int, Field(ge=1, le=64)] = Field(
        2, description="Searches that run at the same time, each with a native thread."
    )
    search_queue: Annotated[int, Field(ge=1, le=10_000)] = Field(
        64, description="Searches that may wait for a thread. Further searches get 503 with Retry-After."
    )
    max_connections: Annotated[int, Field(ge=10, le=100_000)] = Field(
        1_000, description="Connections that are open at the same time. Further connections get 503 with Retry-After."
    )
    max_tasks: Annotated[int, Field(ge=10, le=1_000_000)] = Field(
        10_000, description="Number of tasks kept. The oldest finished tasks are deleted first."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="The lowest level of logged events."
    )

    @property
    def host_names(self) -> tuple[str, ...]:
        """The names of `allowed_hosts`."""
        return tuple(name.strip() for name in self.allowed_hosts.split(",") if name.strip())


class UnknownSetting(ValueError):
    """A SOFTSEEK_* name that is not a setting."""


def load_settings(**flags: object) -> Settings:
    """Return the settings. Flags that are None are ignored. Raises UnknownSetting and pydantic.ValidationError."""
    known = {f"{PREFIX}{name}".upper() for name in Settings.model_fields}
    given = [*os.environ, *(dotenv_values(".env") if Path(".env").is_file() else {})]
    unknown = sorted({name for name in given if name.upper().startswith(PREFIX)} - known)
    if unknown:
        raise UnknownSetting(f"unknown setting {unknown[0]}; known are {', '.join(sorted(known))}")
    return Settings(**{name: value for name, value in flags.items() if value is not None})  # type: ignore[arg-type]
