"""Queries as feedback knows them: one text, however it is spelled, is one source."""

import unicodedata


def normalise(text: str) -> str:
    """Return the source of a query text: without case, outer and repeated white space, in one Unicode form."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())
