"""The request body of an alias."""

from typing import Annotated

from pydantic import Field

from service.http.requests import Strict

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$"


class AliasIn(Strict):
    """The collection that an alias names."""

    collection: Annotated[str, Field(pattern=NAME_PATTERN)]
    """The name of an existing collection."""
