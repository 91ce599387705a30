"""The environment of a process that the service starts with `python -m`."""

import os
from pathlib import Path

from service.settings import with_database


def child_environment(address: str | None) -> dict[str, str]:
    """Return the environment of a process that finds this package, from wherever the service was started.

    address: of the database, which no command line names.
    """
    source = str(Path(__file__).parents[2])
    environment = with_database(os.environ, address)
    path = os.pathsep.join(filter(None, [source, environment.get("PYTHONPATH", "")]))
    return environment | {"PYTHONPATH": path}
