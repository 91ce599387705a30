"""The request bodies of API keys."""

from datetime import UTC, datetime
from typing import Annotated

from pydantic import AwareDatetime, Field, WithJsonSchema, field_validator, model_validator

from index.errors import FilterSyntax
from index.filters.parser import parse_filter
from service.http.access import PUBLIC, Scope
from service.http.requests import Strict
from service.runtime.key_repository import AnyField
from service.settings import NO_ORIGIN, ORIGIN, is_origin

MAX_KEYS = 10_000
MAX_GRACE_SECONDS = 30 * 86_400
COLLECTION = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$"

Collections = Annotated[list[Annotated[str, Field(pattern=COLLECTION)]], Field(min_length=1, max_length=1000)]
Moment = Annotated[AwareDatetime, Field(strict=False), WithJsonSchema({"type": "string", "format": "date-time"})]


class KeyIn(Strict):
    """A key to make, with its rights."""

    name: Annotated[str, Field(min_length=1, max_length=128)]
    """What the key is for."""
    scopes: Annotated[list[Scope], Field(min_length=1, max_length=5)]
    """What the key may do; `admin` may do everything."""
    collections: (
        Annotated[list[Annotated[str, Field(pattern=COLLECTION)]], Field(min_length=1, max_length=1000)] | None
    ) = None
    """The collections that the key covers; null for all."""
    filter: Annotated[str, Field(min_length=1, max_length=4096)] | None = None
    """A filter that every use of the key is restricted to."""
    origins: Annotated[list[Annotated[str, Field(pattern=ORIGIN)]], Field(max_length=50)] = Field(default_factory=list)
    """The origins of the web pages that may use the key."""
    expires_at: Moment | None = None
    """The time from which the key is not valid; null for never."""
    rate_per_minute: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """The number of requests that the key may make in a minute; null for any number."""

    @field_validator("filter")
    @classmethod
    def _parses(cls, text: str | None) -> str | None:
        if text is not None:
            try:
                parse_filter(text, AnyField())
            except FilterSyntax as error:
                raise ValueError(f"{error} at position {error.position}") from error
        return text

    @field_validator("origins")
    @classmethod
    def _are_sent(cls, origins: list[str]) -> list[str]:
        if not all(map(is_origin, origins)):
            raise ValueError(NO_ORIGIN)
        return origins

    @field_validator("expires_at")
    @classmethod
    def _in_future(cls, moment: datetime | None) -> datetime | None:
        if moment is None:
            return None
        try:
            moment = moment.astimezone(UTC)
        except OverflowError:
            raise ValueError("must be representable in UTC") from None
        if moment <= datetime.now(UTC):
            raise ValueError("must be in the future")
        return moment

    @model_validator(mode="after")
    def _harmless(self) -> "KeyIn":
        beyond = sorted(set(self.scopes) - PUBLIC)
        if beyond and (self.filter is not None or self.origins):
            raise ValueError("a key with a filter or with origins has no other scopes than search and events")
        if "admin" in self.scopes and self.collections is not None:
            raise ValueError("a key with the scope admin covers all collections: collections must be null")
        return self


class RotationIn(Strict):
    """How a key is replaced."""

    grace_seconds: Annotated[int, Field(ge=0, le=MAX_GRACE_SECONDS)] = 0
    """The time for which the old key stays valid beside the new."""
