"""What can go wrong in the library, in the words of the domain. Status codes are given at the service's edge."""


class SearchError(Exception):
    """Root of every error that the library raises on purpose."""


class ModelNotFound(SearchError):
    """No weights for the encoder were found in any of the places that were looked at."""


class EncoderMismatch(SearchError):
    """The keys were made by one encoder and another one is at hand: their vectors cannot be compared."""


class DamagedFile(SearchError):
    """A file does not have the bytes that its manifest promises."""


class DamagedKeys(DamagedFile):
    """A key of a saved index differs from its checksum; found when it was first read."""


class NotEnoughFeedback(SearchError):
    """Fewer judged queries than a fit with a held-out test needs."""

    def __init__(self, have: int, need: int) -> None:
        super().__init__(f"{have} queries with a confirmed document; a training run needs {need}")
        self.have = have
        self.need = need


class FilterSyntax(SearchError):
    """A filter that does not parse, or names a field that is not filterable.

    `position` is the 0-based offset in the filter text at which the fault was found.
    """

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.position = position


class Canceled(SearchError):
    """The caller asked a long piece of work to stop."""
