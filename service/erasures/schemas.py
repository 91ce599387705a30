"""The request body of an erasure."""

from typing import Annotated

from pydantic import Field, model_validator

from service.http.requests import Strict

Subject = Annotated[str, Field(min_length=1, max_length=512)]


class ErasureIn(Strict):
    """Whose data to erase: exactly one of `client`, `user` and `session`."""

    client: Subject | None = None
    """The `client_id` of searches and events."""
    user: Subject | None = None
    """The `user_id` of events, and the `rater` of judgments."""
    session: Subject | None = None
    """The `session_id` of searches and events."""
    collection: Annotated[str, Field(min_length=1, max_length=128)] | None = None
    """A collection; by default all."""

    @model_validator(mode="after")
    def _one_subject(self) -> "ErasureIn":
        if sum(one is not None for one in (self.client, self.user, self.session)) != 1:
            raise ValueError("give one of client, user and session")
        return self

    @property
    def kind(self) -> str:
        """The kind of the subject: `client`, `user` or `session`."""
        return next(name for name in ("client", "user", "session") if getattr(self, name) is not None)

    @property
    def subject(self) -> str:
        """The name of the client, user or session."""
        return str(getattr(self, self.kind))
