"""The query key: the text under which feedback on a query is merged, however the query was spelled."""

import hashlib
import re
import unicodedata
from functools import lru_cache

from index.characters import AFTER_WORDS, BEFORE_WORDS, INVISIBLE

ANONYMOUS = " "
"""The first character of an anonymous key. A query key does not begin with white space."""

_INVISIBLE = re.compile(f"[{INVISIBLE}]+")
CACHED = 65_536
"""Query keys whose numbers are kept: a search with a number reads those of all past queries near it."""
_DIGIT = re.compile(r"\d")
_NUMBER = re.compile(r"\b0x[0-9a-f]+\b|[0-9]+(?:[.,][0-9]+)*")
_WITH_THOUSANDS = re.compile("[1-9][0-9]{0,2}(?:,[0-9]{3})+|[1-9][0-9]{0,2}(?:[.][0-9]{3})+")
_ZEROS = re.compile("(?:[.]0+)+$")
"""The end of a version or number that says nothing: 5.0 is 5."""
_SMALL_CAPITAL_I = re.compile("i\u0307+")
"""The small letter of İ, an i with a combining dot."""


def as_query_key(text: str) -> str:
    """Return the text without case, invisible characters, outer and repeated white space, in the Unicode form NFKC.

    İ is an i, as in words.
    """
    if text.isascii():
        return _in_one_case(text)
    key = _in_one_case(_INVISIBLE.sub("", text))
    if _SMALL_CAPITAL_I.search(key) is None:
        return key
    return _in_one_case(_SMALL_CAPITAL_I.sub("i", key))  # an accent after the dot is composed with the i


def bare_key(query_key: str) -> str:
    """Return a query key without punctuation around its words: `"red shoe"?` is `red shoe`, but `c++` and `.net` stay.

    Past queries with the same bare key have the same words. A key of punctuation alone, and an anonymous one, stays,
    and so does a quotation mark before a dash: alone, the dash would exclude the word.
    """
    if query_key.startswith(ANONYMOUS):
        return query_key
    return " ".join(filter(None, map(_bare, query_key.split()))) or query_key


def _bare(word: str) -> str:
    begun = word.lstrip(BEFORE_WORDS)
    return word if begun.startswith("-") and begun != word else begun.rstrip(AFTER_WORDS)


@lru_cache(CACHED)
def numbers_of(query_key: str) -> frozenset[str]:
    """Return the numbers, versions and hexadecimal codes in a query key; none of an anonymous one.

    Letters around digits do not count, so that `NX-200` is `nx 200`; 1,000 is 1000, and 5.0 is 5.
    """
    if query_key.startswith(ANONYMOUS) or _DIGIT.search(query_key) is None:
        return frozenset()
    ascii_digits = _DIGIT.sub(lambda found: str(unicodedata.decimal(found[0])), query_key)
    return frozenset(map(_number, _NUMBER.findall(ascii_digits)))


def _number(written: str) -> str:
    if written.startswith("0x"):
        return written
    if _WITH_THOUSANDS.fullmatch(written):
        return re.sub("[.,]", "", written)
    return _ZEROS.sub("", written.replace(",", "."))


def are_apart(numbers: frozenset[str], others: frozenset[str]) -> bool:
    """Return whether two queries are about different things by their numbers: each has one that the other lacks."""
    return not (numbers <= others or others <= numbers)


def earlier_query_key(text: str) -> str:
    """Return the query key of earlier releases. Anonymous keys that were stored by them are named after it."""
    return _in_one_case(text)


def renewed_query_key(stored: str) -> str:
    """Return a stored query key, perhaps of an earlier release, as this release makes it."""
    is_earlier = _SMALL_CAPITAL_I.search(stored) is not None or _INVISIBLE.search(stored) is not None
    return as_query_key(stored) if is_earlier and not is_anonymous(stored) else stored


def _in_one_case(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def anonymous_key(query_key: str, tenant: str = "") -> str:
    """Return the name of a query in anonymous memory: 128 bits of the SHA-256 of its query key, without the text.

    The name begins so for every tenant, and ends with the tenant, so that the memory of tenants stays apart.
    """
    digest = hashlib.sha256(query_key.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{ANONYMOUS}{digest[:32]}{tenant}"


def is_anonymous(name: str) -> bool:
    """Return whether a name is an anonymous key."""
    return name.startswith(ANONYMOUS)
