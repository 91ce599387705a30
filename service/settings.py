"""Every setting, in one place: flag, then SOFTSEEK_* environment, then .env, then the default here.

Read once, at the edge (`cli`), and passed on as an argument. An unknown SOFTSEEK_* name is an error, so that a typing
mistake is not silently a default. docs/settings.md lists them all; a test compares.
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
    """The settings of one service process; each field's description says what it changes."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_file=".env", extra="ignore", frozen=True)

    data: Path = Field(Path("./data"), description="The data directory; one process owns it at a time.")
    host: str = Field("127.0.0.1", description="The address to listen on.")
    port: Annotated[int, Field(ge=0, le=65535)] = Field(8080, description="The port to listen on; 0 takes a free one.")
    encoder: str = Field(
        DEFAULT_MODEL,
        description="The sentence-transformers model, by name or folder; `hashing` needs no weights, for tests.",
    )
    encoder_precision: Precision = Field(
        "auto", description="What vectors are computed with; all precisions of a model are compared with each other."
    )
    search_threads: Annotated[int, Field(ge=1, le=64)] = Field(
        2, description="Searches that run at once, one native thread each."
    )
    search_queue: Annotated[int, Field(ge=1, le=10_000)] = Field(
        64, description="Searches that may wait for a thread; beyond that the answer is 503 with Retry-After."
    )
    max_tasks: Annotated[int, Field(ge=10, le=1_000_000)] = Field(
        10_000, description="Tasks kept; the oldest finished ones are forgotten first."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="The least level of events that are logged."
    )


class UnknownSetting(ValueError):
    """A SOFTSEEK_* name that is no setting."""


def load_settings(**flags: object) -> Settings:
    """Return the settings; flags that are None were not given. Raises UnknownSetting and pydantic.ValidationError."""
    known = {f"{PREFIX}{name}".upper() for name in Settings.model_fields}
    given = [*os.environ, *(dotenv_values(".env") if Path(".env").is_file() else {})]
    unknown = sorted({name for name in given if name.upper().startswith(PREFIX)} - known)
    if unknown:
        raise UnknownSetting(f"unknown setting {unknown[0]}; known are {', '.join(sorted(known))}")
    return Settings(**{name: value for name, value in flags.items() if value is not None})  # type: ignore[arg-type]
