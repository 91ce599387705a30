"""The errors of the library. `service.http.problems` maps them to status codes."""


class SearchError(Exception):
    """Base class of all errors that the library raises."""


class InvalidArgument(SearchError, ValueError):
    """An argument of the library has a value that it does not take. Nothing was changed."""


class ModelNotFound(SearchError):
    """The weights of the encoder were not found."""


class EncoderMismatch(SearchError):
    """The collection was encoded with another encoder. Vectors of different encoders cannot be compared."""


class DamagedFile(SearchError):
    """A file is missing, unreadable, or does not have the expected bytes."""


class DamagedKeys(DamagedFile):
    """A key of a saved index differs from its checksum. The check runs when the key is first read."""


class NotEnoughFeedback(SearchError):
    """There are fewer judged queries or explored lists than a training run with a held-out test needs."""

    def __init__(self, have: int, need: int, counted: str = "queries with a confirmed document") -> None:
        super().__init__(f"{have} {counted}; a training run needs {need}")
        self.have = have
        self.need = need


class FilterSyntax(SearchError):
    """A filter that does not parse, or names a field that is not filterable.

    `position` is the 0-based offset of the fault in the filter text.
    """

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.position = position


class Canceled(SearchError):
    """The caller canceled a long operation."""
