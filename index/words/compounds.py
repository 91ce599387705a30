"""Compounds: words made of two words of the vocabulary, in languages that write them together.

The vocabulary of the collection decides what a word is, so that no dictionary is needed (Koehn and Knight 2003).
"""

from collections.abc import Iterator

from index.words.vocabulary import Counted, Vocabulary

COMPOUNDING = frozenset({"danish", "dutch", "finnish", "german", "norwegian", "swedish"})
"""Languages whose compounds are split."""
LEAST_PART = 4
"""Least letters of a part of a compound."""
LINKS = ("", "s", "es", "n", "en", "e", "er")
"""Letters that may stand between the parts."""
MAX_COMPOUNDS = 32
"""Compounds with a word that are searched, the most frequent."""


def parts(word: str, vocabulary: Vocabulary) -> tuple[str, str] | None:
    """Return the two words that a compound consists of; the pair whose rarer part is most frequent."""
    found = [
        (min(_count(first, vocabulary), _count(second, vocabulary)), first, second) for first, second in _splits(word)
    ]
    count, first, second = max(found, default=(0, "", ""))
    return (first, second) if count else None


def compounds(word: str, vocabulary: Vocabulary) -> list[Counted]:
    """Return the compounds of the vocabulary whose first or last part is this word, the most frequent first."""
    if len(word) < LEAST_PART:
        return []
    with_word = dict([*vocabulary.beginning(word), *vocabulary.ending(word)])
    found = [one for one in with_word.items() if _is_compound_of(one[0], word, vocabulary)]
    return sorted(found, key=lambda one: (-one[1], one[0]))[:MAX_COMPOUNDS]


def _is_compound_of(compound: str, word: str, vocabulary: Vocabulary) -> bool:
    return any(
        (first == word and _count(second, vocabulary) > 0) or (second == word and _count(first, vocabulary) > 0)
        for first, second in _splits(compound)
    )


def _count(word: str, vocabulary: Vocabulary) -> int:
    """Return the number of documents with a word in any form."""
    terms = vocabulary.stems(word)
    return vocabulary.term_count(terms[0]) if len(terms) == 1 else 0


def _splits(word: str) -> Iterator[tuple[str, str]]:
    """Yield the parts of a word at every place, without the letters between them."""
    for at in range(LEAST_PART, len(word) - LEAST_PART + 1):
        for link in LINKS:
            if word.startswith(link, at) and len(word) - at - len(link) >= LEAST_PART:
                yield word[:at], word[at + len(link) :]
