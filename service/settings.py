"""The settings of the service: command line flags, then SOFTSEEK_* in the environment, then .env, then the defaults.

`service.cli` reads them once and passes them on as an argument. An unknown SOFTSEEK_* name is an error, so that a
misspelled name does not silently leave the default. A test compares docs/settings.md with this module.
"""

import os
import re
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Literal

from dotenv import dotenv_values
from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from index.encoding.model_files import DEFAULT_MODEL
from index.encoding.precision import Precision, cores

PREFIX = "SOFTSEEK_"
LEAST_KEY = 22
"""Characters of the admin key at least: so many random characters of base64 have 128 bits."""
MOST_KEY = 512
MAX_WORKERS = 64
USUAL_WORKERS = 8
"""The most processes that answer searches where the settings name no number."""
USUAL_SEARCHES = 2
"""The searches that run at the same time in a process, where the settings name no number."""
MOST_WITH_TWO_THREADS = 4
"""The most processes that run two searches at the same time each, whatever the number of cores."""
DATABASE_VARIABLE = f"{PREFIX}DATABASE"
LABEL = r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
HOST = re.compile(rf"\*|(\*\.)?({LABEL}\.)*{LABEL}\.?")
"""A name that `service.http.allowed_hosts` can compare with the header Host: without a scheme and a port."""
ORIGIN = r"^https?://([a-z0-9.-]{1,253}|\[[0-9a-f:.]{2,45}\])(:[1-9][0-9]{0,4})?$"
"""An origin, but for what `is_origin` checks of its port."""
USUAL_PORTS = {"http": "80", "https": "443"}
NO_ORIGIN = "must be origins as browsers send them, such as https://example.org, without the port 80 or 443"
"""Why a text is refused that is no such origin."""


def is_origin(text: str) -> bool:
    """Return whether browsers send an origin like this: the host in lower case, and no port that is usual."""
    found = re.fullmatch(ORIGIN, text)
    if found is None:
        return False
    port = (found[2] or ":1")[1:]
    return int(port) < 1 << 16 and port != USUAL_PORTS[text.partition(":")[0]]


class Settings(BaseSettings):
    """The settings of a service process."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_file=".env", extra="ignore", frozen=True)

    data: Path = Field(Path("./data"), description="The data directory. It belongs to a single process at a time.")
    database: SecretStr | None = Field(
        None,
        description="The address of a PostgreSQL database, `postgresql+psycopg://USER:PASSWORD@HOST/NAME`."
        " Without a value: SQLite in the data directory.",
    )
    role: Literal["all", "writer", "searcher", "coordinator"] = Field(
        "all",
        description="`searcher`: answer searches alone, from a copy of the PostgreSQL database in the data directory."
        " `coordinator`: the same, from the partitions of a Ray cluster. `writer` is `all` with a PostgreSQL database.",
    )
    ray_address: str = Field(
        "auto", description="The Ray cluster: HOST:PORT, or `auto` for the cluster of this machine."
    )
    ray_encoders: Annotated[int, Field(ge=0, le=1_000)] = Field(
        0,
        description="Encoders on the Ray cluster at most, for tasks with a thousand documents or more."
        " Needs PostgreSQL. 0: the service encodes all documents.",
    )
    ray_training: bool = Field(False, description="Whether training runs are fitted on the Ray cluster.")
    partial_answers: bool = Field(
        True, description="Whether a coordinator answers without the partitions that are away. Otherwise it gives 503."
    )
    generation_file: Path | None = Field(
        None,
        description="A file that searchers share, with a copy of the content and its indexes: a searcher with an empty"
        " data directory starts from it, and a searcher that finds none, or one that is a day old, writes it.",
    )
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
    workers: Annotated[int, Field(ge=1, le=MAX_WORKERS)] | None = Field(
        None,
        description="Processes that answer searches. Without a value: one for each core of the machine, at most 8.",
    )
    search_threads: Annotated[int, Field(ge=1, le=64)] | None = Field(
        None,
        description="Searches that run at the same time in each process, each with a native thread. Without a value "
        "2; 1 where there are more than 4 processes, and more of them than two thirds of the cores.",
    )
    search_queue: Annotated[int, Field(ge=1, le=10_000)] = Field(
        64,
        description="Searches that may wait for a thread in each process. Further searches get 503 with Retry-After.",
    )
    result_cache_mib: Annotated[int, Field(ge=0, le=65_536)] = Field(
        16, description="Mebibytes of results that each process keeps for repeated searches. 0: none."
    )
    max_connections: Annotated[int, Field(ge=10, le=100_000)] = Field(
        1_000, description="Connections that are open at the same time. Further connections get 503 with Retry-After."
    )
    max_tasks: Annotated[int, Field(ge=10, le=1_000_000)] = Field(
        10_000, description="Number of tasks kept. The oldest finished tasks are deleted first."
    )
    external_checkpoints: bool = Field(
        False, description="Whether a replicating process checkpoints the database in place of the service."
    )
    snapshot_every_hours: Annotated[float, Field(ge=0.01, le=8760)] | None = Field(
        None, description="Hours between two scheduled snapshots. Without a value there are none."
    )
    snapshot_keep: Annotated[int, Field(ge=1, le=50)] = Field(
        7, description="Number of scheduled snapshots kept. The oldest are deleted first."
    )
    admin_key: SecretStr | None = Field(
        None, description="An API key that may do everything, made at the start of the server."
    )
    key: SecretStr | None = Field(None, description="The API key that commands send to a server.")
    insecure: bool = Field(
        False, description="Whether a server without API keys listens beyond this machine and behind a proxy."
    )
    cors_origins: str | None = Field(
        None, description="Origins whose web pages may read every answer, separated by commas."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="The lowest level of logged events."
    )

    @field_validator("admin_key")
    @classmethod
    def _fits_a_header(cls, key: SecretStr | None) -> SecretStr | None:
        if key is None:
            return None
        if not LEAST_KEY <= len(key.get_secret_value()) <= MOST_KEY:
            raise ValueError(f"must have {LEAST_KEY} to {MOST_KEY} characters")
        if not re.fullmatch(r"[\x21-\x7e]+", key.get_secret_value()):
            raise ValueError("must consist of visible ASCII characters without spaces")
        return key

    @field_validator("database")
    @classmethod
    def _is_of_postgres(cls, address: SecretStr | None) -> SecretStr | None:
        if address is not None and not address.get_secret_value().startswith("postgresql+psycopg://"):
            raise ValueError("must begin with postgresql+psycopg://")
        return address

    @field_validator("data", "generation_file", mode="before")
    @classmethod
    def _is_a_path(cls, path: object) -> object:
        """Return the path. An empty one would be the current folder."""
        if isinstance(path, str) and not path.strip():
            raise ValueError("must not be empty")
        return path

    @field_validator("allowed_hosts")
    @classmethod
    def _are_hosts(cls, hosts: str) -> str:
        if not all(HOST.fullmatch(name) or is_address(name) for name in names_in(hosts)):
            raise ValueError(
                "must be names such as search.example.org, *.example.org or *, or IP addresses, separated by commas, "
                "without a scheme and a port"
            )
        return hosts

    @field_validator("cors_origins")
    @classmethod
    def _are_origins(cls, origins: str | None) -> str | None:
        if not all(map(is_origin, names_in(origins))):
            raise ValueError(f"{NO_ORIGIN}, separated by commas")
        return origins

    @property
    def database_address(self) -> str | None:
        """The address of the database, None for SQLite in the data directory."""
        return self.database.get_secret_value() if self.database is not None else None

    @property
    def only_reads(self) -> bool:
        """Whether the service answers searches alone."""
        return self.role in ("searcher", "coordinator")

    @property
    def processes(self) -> int:
        """The number of processes that answer searches, this one included."""
        return self.workers or min(USUAL_WORKERS, cores())

    @property
    def searches_at_once(self) -> int:
        """The number of searches that run at the same time in each process.

        Two threads use one and a half cores. Where the processes use all cores so, a second thread only waits.
        """
        processes = 1 if self.only_reads else self.processes
        fills_cores = processes > MOST_WITH_TWO_THREADS and 3 * processes > 2 * cores()
        return self.search_threads or (1 if fills_cores else self.searches_alone)

    @property
    def searches_alone(self) -> int:
        """The same of a process that is no worker, such as a replica of a partition."""
        return self.search_threads or USUAL_SEARCHES

    @property
    def host_names(self) -> tuple[str, ...]:
        """The names of `allowed_hosts`."""
        return tuple(names_in(self.allowed_hosts))


def with_database(environment: Mapping[str, str], address: str | None) -> dict[str, str]:
    """Return the environment of a process that uses the database with this address, which no command line names."""
    others = {name: value for name, value in environment.items() if name.upper() != DATABASE_VARIABLE}
    return others if address is None else others | {DATABASE_VARIABLE: address}


def names_in(text: str | None) -> list[str]:
    """Return the parts of a list that commas separate."""
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def is_address(name: str) -> bool:
    """Return whether a name is an IP address; one of version 6 may stand in brackets."""
    try:
        ip_address(name[1:-1] if name.startswith("[") and name.endswith("]") else name)
    except ValueError:
        return False
    return True


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
