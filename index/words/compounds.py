"""Compounds: words made of two words, in languages that write them together.

The vocabulary of the collection decides what a word is, so that no dictionary is needed (Koehn and Knight 2003). A part
that the collection lacks is accepted beside a part of at least five letters: small collections have few words.
"""

from collections.abc import Iterable
from typing import NamedTuple

from index.words.vocabulary import Vocabulary

COMPOUNDING = frozenset({"danish", "dutch", "finnish", "german", "norwegian", "swedish"})
"""Languages whose compounds are split."""
LEAST_PART = 4
"""Least letters of a part of a compound."""
LEAST_SHORT_PART = 3
"""Least letters of a known part beside a known part of LEAST_LONG_PART letters."""
LEAST_LONG_PART = 5
"""Least letters of a known part beside an unknown part."""
LINKS = ("", "s", "es", "n", "en", "e", "er")
"""Letters that may stand between the parts."""
BEGINNING = "aaaaa"
"""Stands for any first part of a compound."""
MAX_TRIED = 256
"""Words that begin, and terms that end with a word, that are tried as compounds, the most frequent."""
MAX_COMPOUNDS = 32
"""Compounds with a word that are searched: those of known parts first, then the most frequent."""


class Compound(NamedTuple):
    """A compound of the collection. term: its term in the index. known: whether its other part is a word too."""

    term: str
    documents: int
    known: bool


def parts(word: str, vocabulary: Vocabulary) -> tuple[str, str] | None:
    """Return the two words that a compound consists of; the pair whose rarer part is most frequent."""
    splits = _splits(word, LEAST_PART)
    _learn((part for split in splits for part in split), vocabulary)
    found = [(min(_count(first, vocabulary), _count(second, vocabulary)), first, second) for first, second in splits]
    count, first, second = max(found, default=(0, "", ""))
    return (first, second) if count else None


def parts_of_unknown(word: str, vocabulary: Vocabulary) -> tuple[str, str] | None:
    """Return the parts of a compound that no document contains; the pair with the most known letters.

    Both parts are words of the collection, or one of at least LEAST_LONG_PART letters is. Words as documents write them
    come before other forms: `drucker` and `schublade`, not `druckers` and `chublade`.
    """
    best, chosen = (0, 0, 0), None
    splits = _splits(word, LEAST_SHORT_PART)
    _learn((part for split in splits for part in split), vocabulary)
    for first, second in splits:
        known = [part for part in (first, second) if _count(part, vocabulary)]
        if _are_parts(first, second, known):
            written = sum(len(part) for part in known if vocabulary.count(part))
            score = written, sum(map(len, known)), min(_count(part, vocabulary) for part in known)
            best, chosen = max((best, chosen), (score, (first, second)), key=lambda one: one[0])
    return chosen


def _are_parts(first: str, second: str, known: list[str]) -> bool:
    shortest, longest = sorted((len(first), len(second)))
    if len(known) == 2:
        return shortest >= LEAST_PART or longest >= LEAST_LONG_PART
    return shortest >= LEAST_PART and max(map(len, known), default=0) >= LEAST_LONG_PART


def compounds(word: str, vocabulary: Vocabulary) -> list[Compound]:
    """Return the compounds of the collection whose first or last part is this word."""
    if len(word) < LEAST_PART:
        return []
    terms = vocabulary.stems(word)
    stem = terms[0] if len(terms) == 1 else ""
    candidates: list[tuple[Compound, list[str]]] = []
    for begin in dict.fromkeys([word, *([stem] if len(stem) >= LEAST_PART else [])]):
        for compound, count in vocabulary.beginning(begin)[:MAX_TRIED]:
            rest = compound[len(begin) :]
            others = [rest.removeprefix(link) for link in LINKS if rest.startswith(link)]
            candidates += [(Compound(term, count, known=False), others) for term in vocabulary.stems(compound)]
    for end in _ends(word, stem, vocabulary):
        for term, count in vocabulary.ending(end)[:MAX_TRIED]:
            rest = term[: -len(end)]
            others = [rest.removesuffix(link) for link in LINKS if rest.endswith(link)]
            candidates.append((Compound(term, count, known=False), others))
    _learn((other for _, others in candidates for other in others if len(other) >= LEAST_PART), vocabulary)
    found: dict[str, Compound] = {}
    for candidate, others in candidates:
        _add(found, candidate, word, others, vocabulary)
    found.pop(stem, None)
    return sorted(found.values(), key=lambda one: (not one.known, -one.documents, one.term))[:MAX_COMPOUNDS]


def _ends(word: str, stem: str, vocabulary: Vocabulary) -> list[str]:
    """Return the stem of a word by itself and, where it is another, at the end of a compound.

    Stemmers take less from a short word: tuoli is tuoli, and toimistotuoli is toimistotuol.
    """
    stems = vocabulary.stems(BEGINNING + word)
    inside = stems[0].removeprefix(BEGINNING) if len(stems) == 1 and stems[0].startswith(BEGINNING) else stem
    ends = [stem] if len(stem) >= LEAST_PART else []
    return [*ends, inside] if inside != stem and len(inside) >= LEAST_PART - 1 else ends


def _add(found: dict[str, Compound], compound: Compound, word: str, others: list[str], vocabulary: Vocabulary) -> None:
    """Add a compound if what stands beside the word may be the other part."""
    possible = [other for other in others if len(other) >= LEAST_PART]
    known = any(_count(other, vocabulary) for other in possible)
    if known or (possible and len(word) >= LEAST_LONG_PART and compound.term not in found):
        found[compound.term] = compound._replace(known=known)


def _count(word: str, vocabulary: Vocabulary) -> int:
    """Return the number of documents with a word in any form."""
    terms = vocabulary.stems(word)
    return vocabulary.term_count(terms[0]) if len(terms) == 1 else 0


def _learn(words: Iterable[str], vocabulary: Vocabulary) -> None:
    """Get together what `_count` returns for each of these words."""
    terms = (vocabulary.stems(word) for word in words)
    vocabulary.learn([of[0] for of in terms if len(of) == 1])


def _splits(word: str, least: int) -> list[tuple[str, str]]:
    """Return the parts of a word at every place, of at least this many letters, without the letters between them."""
    return [
        (word[:at], word[at + len(link) :])
        for at in range(least, len(word) - least + 1)
        for link in LINKS
        if word.startswith(link, at) and len(word) - at - len(link) >= least
    ]
