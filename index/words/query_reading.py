"""Reads the text of a query: its words, their corrections, completions and synonyms, and the text that is encoded.

Exact words come first. A word that no document contains is corrected by the vocabulary of the collection; the last word
may be unfinished; the owner of a collection may declare synonyms and stop words.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from index.words.analyzers import analyzer_for
from index.words.compounds import compounds, parts, parts_of_unknown
from index.words.query_words import Alternative, QueryWords, Source, number_words
from index.words.tokens import Token, is_unspaced, spaced, tokens
from index.words.vocabulary import Counted, Vocabulary

MAX_COMPLETIONS = 64
"""Completions of the last word, the most frequent."""
MAX_CORRECTIONS = 3
"""Corrections of a word, the most frequent of those with the fewest edits."""
CORRECTION_FACTORS = {1: 0.9, 2: 0.7}
"""Edits -> how much a corrected word counts beside an exact word."""
COMPLETION_FACTOR = 0.9
SYNONYM_FACTOR = 0.9
COMPOUND_FACTOR = 0.6
POSSIBLE_COMPOUND_FACTOR = 0.4
"""Factor of a compound whose other part is no word of the collection."""
RARE_CORRECTION = 0.1
"""Least count of a correction, as a share of the count of the most frequent correction with as many edits."""


@dataclass(frozen=True)
class ReadingOptions:
    """How the text of a query is read. The default reads it exactly."""

    typos: bool = False
    """Whether words that no document contains are corrected."""
    prefix: bool = False
    """Whether the last word may be unfinished."""
    one_edit: int = 4
    """Least length of a word that is corrected by one edit."""
    two_edits: int = 8
    """Least length of a word that is corrected by two edits."""
    uncorrected: frozenset[str] = frozenset()
    """Words that are never corrected, in lower case."""
    known: frozenset[str] = frozenset()
    """Words of the language, in lower case: the encoder knows their meaning, and they are not corrected either."""
    stop_words: frozenset[str] = frozenset()
    """Words that are left out of a query that has other words, in lower case."""
    synonyms: "Synonyms | None" = None
    compounds: bool = False
    """Whether compounds are split, and words found in compounds (`index.words.compounds`)."""


class Synonyms:
    """The synonyms of a collection. Equal by identity, so that options with them can be cached."""

    def __init__(self, replacements: Mapping[str, Sequence[str]]) -> None:
        """replacements: word or words, in lower case -> the words or phrases that may replace it."""
        self._replacements = {tuple(text.split()): list(others) for text, others in replacements.items()}
        self._longest = max(map(len, self._replacements), default=0)

    def of(self, words: Sequence[str]) -> list[tuple[int, int, str]]:
        """Return (first, end, replacement) for each replacement of the words [first, end) of a query."""
        return [
            (first, end, other)
            for first in range(len(words))
            for end in range(first + 1, min(first + self._longest, len(words)) + 1)
            for other in self._replacements.get(tuple(words[first:end]), ())
        ]


EXACTLY = ReadingOptions()


def folded(text: str) -> str:
    """Return words as the vocabulary writes them: in lower case, without accents, one space between words."""
    return " ".join(analyzer_for("none").analyze(spaced(text)))


@dataclass(frozen=True)
class Reading:
    """A query as it is searched.

    words: its words, and the words that stand for them. terms: the terms of the index with their factors, by position
    of the query. text: the text that is encoded, corrected and completed. corrections: pairs (from, to). trust: the
    share of the text that is known, in (0, 1]; an unfinished word counts with the probability of its completion.
    """

    words: QueryWords
    terms: tuple[tuple[str, float], ...]
    text: str
    corrections: tuple[tuple[str, str], ...] = ()
    trust: float = 1.0


@dataclass(frozen=True)
class _Word:
    """A word of the query: its place in the text, as the vocabulary writes it, and its term in the index.

    part: whether it is a part of the word at that place, a compound.
    """

    token: Token
    folded: str
    term: str
    part: bool = False


@dataclass(frozen=True)
class _Stand:
    """A word that stands for the word at a position: the term of the index."""

    position: int
    term: str
    idf: float
    factor: float
    source: Source


def read(text: str, options: ReadingOptions, vocabulary: Vocabulary) -> Reading:
    """Return the reading of a query."""
    terms = vocabulary.stems(spaced(text))
    words = _words(text, terms, vocabulary)
    if words and options.stop_words:
        words = [word for word in words if word.folded not in options.stop_words] or words
        terms = tuple(word.term for word in words)
    if options.compounds:
        words = [part for word in words for part in _split(word, text, options, vocabulary)]
        terms = tuple(word.term for word in words) or terms
    stands: list[_Stand] = []
    replaced: dict[int, str] = {}
    corrections: list[tuple[str, str]] = []
    trust = 1.0
    for position, word in enumerate(words):
        unfinished = options.prefix and position == len(words) - 1 and word.token.end == len(text)
        if unfinished or is_unspaced(word.term):
            found, best, share = _completions(position, word, vocabulary)
            stands += found
            if found and unfinished:
                trust = (len(words) - 1 + share * len(word.folded) / len(best)) / len(words)
                if best != word.folded and not word.part:
                    replaced[position] = best
            if found:
                continue
        in_compounds = _compounds(position, word, vocabulary) if options.compounds else []
        stands += in_compounds
        if options.typos and not in_compounds and not vocabulary.term_count(word.term):
            found, best = _corrections(position, word, options, vocabulary, unfinished)
            stands += found
            if found and not word.part:
                replaced[position] = best
                corrections.append((word.token.text, best))
    if options.synonyms is not None:
        stands += _synonyms(words, options.synonyms, vocabulary)
    return _reading(text, terms, words, stands, replaced, corrections, trust, vocabulary)


def _words(text: str, terms: Sequence[str], vocabulary: Vocabulary) -> list[_Word]:
    """Return the words of a query with their terms, or nothing where the analyzer cuts the text in another way."""
    found = [(token, vocabulary.stems(token.text)) for token in tokens(text)]
    if tuple(term for _, of in found for term in of) != tuple(terms) or any(len(of) != 1 for _, of in found):
        return []
    return [_Word(token, vocabulary.folded(token.text), of[0]) for token, of in found]


def _completions(position: int, word: _Word, vocabulary: Vocabulary) -> tuple[list[_Stand], str, float]:
    """Return the completions of a word, the best of them, and its share of the counts; itself where it is a word."""
    if not word.folded:
        return [], "", 0.0
    every = vocabulary.beginning(word.folded)
    counted = [one for one in every[:MAX_COMPLETIONS] if one[0] != word.folded]
    if not counted:
        return [], "", 0.0
    own = vocabulary.count(word.folded)
    total = sum(count for _, count in every)
    idf = vocabulary.idf(min(total, vocabulary.documents))
    stands = _stands(position, counted, idf, COMPLETION_FACTOR, Source.COMPLETED, vocabulary)
    best, count = (word.folded, own) if own else counted[0]
    return stands, best, count / total


def _corrections(
    position: int, word: _Word, options: ReadingOptions, vocabulary: Vocabulary, unfinished: bool
) -> tuple[list[_Stand], str]:
    """Return the corrections of an unknown word, and the best of them."""
    edits = (len(word.folded) >= options.one_edit) + (len(word.folded) >= options.two_edits)
    if not edits or not word.folded.isalpha() or is_unspaced(word.term) or _is_known(word.folded, options):
        return [], ""
    near = vocabulary.near(word.folded, edits)
    if unfinished and not (near and near[0][0] == 1):
        near = vocabulary.near_prefix(word.folded, edits) or near
    near = [one for one in near if one[1].isalpha()]
    if not near:
        return [], ""
    fewest, best, count = near[0]
    counted = [(other, n) for distance, other, n in near if distance == fewest and n >= RARE_CORRECTION * count]
    factor = CORRECTION_FACTORS[max(1, fewest)]
    kept = counted[:MAX_CORRECTIONS]
    return _stands(position, kept, None, factor, Source.CORRECTED, vocabulary), best


def _split(word: _Word, text: str, options: ReadingOptions, vocabulary: Vocabulary) -> list[_Word]:
    """Return the parts of a compound that no document contains, as words of the query; other words as they are.

    A correction of the whole word comes before parts of which the collection lacks one.
    """
    unfinished = options.prefix and word.token.end == len(text)
    if not word.folded.isalpha() or is_unspaced(word.term) or vocabulary.term_count(word.term):
        return [word]
    if unfinished and vocabulary.beginning(word.folded):
        return [word]
    found = parts_of_unknown(word.folded, vocabulary)
    if found is None or compounds(word.folded, vocabulary):
        return [word]
    terms = [vocabulary.stems(part) for part in found]
    if any(len(of) != 1 for of in terms):
        return [word]
    known = all(vocabulary.term_count(of[0]) for of in terms)
    if not known and not word.part and options.typos and _corrections(0, word, options, vocabulary, unfinished)[0]:
        return [word]
    pieces = [replace(word, folded=part, term=term, part=True) for part, (term,) in zip(found, terms, strict=True)]
    return [part for piece in pieces for part in _split(piece, text, options, vocabulary)]


def _compounds(position: int, word: _Word, vocabulary: Vocabulary) -> list[_Stand]:
    """Return the parts of a known compound, which share its factor, and the compounds that contain the word."""
    if not word.folded.isalpha():
        return []
    split = [(one, 1) for one in parts(word.folded, vocabulary) or ()]
    stands = _stands(position, split, None, COMPOUND_FACTOR / 2, Source.EXACT, vocabulary)
    for one in compounds(word.folded, vocabulary):
        factor = COMPOUND_FACTOR if one.known else POSSIBLE_COMPOUND_FACTOR
        idf = vocabulary.idf(vocabulary.term_count(one.term))
        stands.append(_Stand(position, one.term, idf, factor, Source.EXACT))
    return stands


def _is_known(word: str, options: ReadingOptions) -> bool:
    return word in options.uncorrected or word in options.known


def _stands(
    position: int, counted: Sequence[Counted], idf: float | None, factor: float, source: Source, vocabulary: Vocabulary
) -> list[_Stand]:
    """Return the terms of words that stand for the word at a position; without an idf, each takes its own."""
    terms = [of[0] for of in (vocabulary.stems(other) for other, _ in counted) if len(of) == 1]
    own = (vocabulary.idf(vocabulary.term_count(term)) if idf is None else idf for term in terms)
    return [_Stand(position, term, of, factor, source) for term, of in zip(terms, own, strict=True)]


def _synonyms(words: Sequence[_Word], synonyms: Synonyms, vocabulary: Vocabulary) -> list[_Stand]:
    """Return the synonyms of the words of a query. The words of a synonym phrase share its factor."""
    stands = []
    for first, end, other in synonyms.of([word.folded for word in words]):
        terms = vocabulary.stems(spaced(other))
        for position in range(first, end):
            stands += [
                _Stand(
                    position,
                    term,
                    vocabulary.idf(vocabulary.term_count(term)),
                    SYNONYM_FACTOR / len(terms),
                    Source.EXACT,
                )
                for term in terms
            ]
    return stands


def _reading(
    text: str,
    terms: Sequence[str],
    words: Sequence[_Word],
    stands: Sequence[_Stand],
    replaced: Mapping[int, str],
    corrections: Sequence[tuple[str, str]],
    trust: float,
    vocabulary: Vocabulary,
) -> Reading:
    counts = {term: vocabulary.term_count(term) for term in set(terms)}
    idf = np.asarray([vocabulary.idf(counts[term]) for term in terms], np.float32)
    numbers = number_words([*terms, *(one.term for one in stands)])
    alternatives = [
        Alternative(one.position, int(number), one.idf, one.factor, one.source)
        for one, number in zip(stands, numbers[len(terms) :], strict=True)
    ]
    boosts = (*((term, 1.0) for term in terms), *((one.term, one.factor) for one in stands))
    encoded = text
    for position in sorted(replaced, reverse=True):
        token = words[position].token
        encoded = encoded[: token.start] + replaced[position] + encoded[token.end :]
    known = QueryWords.of(numbers[: len(terms)], idf, alternatives)
    return Reading(known, boosts, encoded, tuple(corrections), trust)
