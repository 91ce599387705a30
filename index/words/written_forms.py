"""Written forms: words as documents write them, for words that the vocabulary has without accents.

The vocabulary folds `löschen` to `loschen`. A correction or completion is shown, encoded and looked up in the memory of
past queries, so it has to be written as the documents write it. The field `written` of the word index has a term for
each word of a document that folding changes: the folded word, SEPARATOR, and the word in lower case.
"""

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

from index.characters import INVISIBLE
from index.words.analyzers import MAX_WORD_BYTES, analyzer_for
from index.words.plain_text import CAPITAL_I
from index.words.postings import Counted
from index.words.tokens import WORD, spaced

SEPARATOR = "/"
"""No word has it."""
CACHED_WORDS = 20_000
_INVISIBLE = re.compile(f"[{INVISIBLE}]")


def written_terms(text: str) -> list[str]:
    """Return the terms of the field `written` for a text, sorted."""
    if text.isascii():
        return []
    composed = unicodedata.normalize("NFC", _INVISIBLE.sub("", text)).replace(CAPITAL_I, "i")
    words = {word.lower() for word in WORD.findall(composed) if not word.isascii()}
    return sorted(term for word in words if (term := _term(word)))


def most_frequent(word: str, count: int, forms: Sequence[Counted]) -> str:
    """Return a word of the vocabulary as documents write it most often.

    count: the number of documents with the word in any form. forms: the terms of the field `written` that begin with
    the word and SEPARATOR, the most frequent first. The remaining documents write the word as the vocabulary does.
    """
    if not forms or forms[0][1] < count - sum(of for _, of in forms):
        return word
    return forms[0][0].partition(SEPARATOR)[2]


@lru_cache(CACHED_WORDS)
def _term(word: str) -> str:
    """Return the term for a word in lower case; nothing where it is folded to itself or is written in another way."""
    if len(word.encode("utf-8", "surrogatepass")) > MAX_WORD_BYTES or unicodedata.normalize("NFKC", word) != word:
        return ""
    folded = analyzer_for("none").analyze(spaced(word))
    return f"{folded[0]}{SEPARATOR}{word}" if len(folded) == 1 and folded[0] != word else ""
