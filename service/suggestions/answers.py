"""The schema of suggestions."""

from service.http.answers import Answer, example


class Suggestion(Answer):
    """A query of the log that led to clicks."""

    q: str
    """The text of the query, in its most frequent spelling."""
    clicks: int
    """The number of clicks and other positive actions."""


class Suggestions(Answer):
    """Completions of a text, most clicks first."""

    model_config = example(suggestions=[{"q": "copy a folder", "clicks": 12}])

    suggestions: list[Suggestion]
    """The completions."""
