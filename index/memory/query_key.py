"""The query key: the text under which feedback on a query is merged, however the query was spelled."""

import unicodedata


def as_query_key(text: str) -> str:
    """Return the text without case, outer and repeated white space, in the Unicode form NFKC."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())
