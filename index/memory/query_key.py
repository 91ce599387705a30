"""The query key: the text under which feedback on a query is merged, however the query was spelled."""

import hashlib
import unicodedata

ANONYMOUS = " "
"""The first character of an anonymous key. A query key does not begin with white space."""


def as_query_key(text: str) -> str:
    """Return the text without case, outer and repeated white space, in the Unicode form NFKC."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def anonymous_key(query_key: str) -> str:
    """Return the name of a query in anonymous memory: 128 bits of the SHA-256 of its query key, without the text."""
    digest = hashlib.sha256(query_key.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{ANONYMOUS}{digest[:32]}"


def is_anonymous(name: str) -> bool:
    """Return whether a name is an anonymous key."""
    return name.startswith(ANONYMOUS)
