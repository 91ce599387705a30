"""Normalises query texts: different spellings of a query share its feedback."""

import unicodedata


def normalise(text: str) -> str:
    """Return the query key of a text: NFKC, without case, with single spaces and without outer white space."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())
