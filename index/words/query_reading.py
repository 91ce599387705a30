"""Reads the text of a query: its words, their corrections, completions and synonyms, and the text that is encoded.

Exact words come first. A word that no document contains is corrected by the vocabulary of the collection; the last word
may be unfinished; the owner of a collection may declare synonyms and stop words.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from index.records import Mask
from index.words.analyzers import analyzer_for
from index.words.compounds import compounds, parts
from index.words.query_words import Alternative, Field, QueryWords, Source, Words, number_words
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
    uncorrected_fields: frozenset[Field] = frozenset()
    """Fields of documents in which corrections do not match."""
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
    corrected_terms: the terms of corrections with their factors, where corrections do not match in all fields; `terms`
    has them otherwise.
    """

    words: QueryWords
    terms: tuple[tuple[str, float], ...]
    text: str
    corrections: tuple[tuple[str, str], ...] = ()
    trust: float = 1.0
    corrected_terms: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class _Word:
    """A word of the query: its place in the text, as the vocabulary writes it, and its term in the index."""

    token: Token
    folded: str
    term: str


@dataclass(frozen=True)
class _Stand:
    """A word that stands for the word at a position: the term of the index."""

    position: int
    term: str
    idf: float
    factor: float
    source: Source


def read(
    text: str, options: ReadingOptions, vocabulary: Vocabulary, corrects: Callable[[Words], Mask] | None = None
) -> Reading:
    """Return the reading of a query. corrects: which terms, by number (W,), may be corrections (W,); None for all."""
    terms = vocabulary.stems(spaced(text))
    words = _words(text, terms, vocabulary)
    if words and options.stop_words:
        words = [word for word in words if word.folded not in options.stop_words] or words
        terms = tuple(word.term for word in words)
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
                if best != word.folded:
                    replaced[position] = best
            if found:
                continue
        in_compounds = _compounds(position, word, vocabulary) if options.compounds else []
        stands += in_compounds
        if options.typos and not in_compounds and not vocabulary.term_count(word.term):
            found, best = _corrections(position, word, options, vocabulary, unfinished, corrects)
            stands += found
            if found:
                replaced[position] = best
                corrections.append((word.token.text, best))
    if options.synonyms is not None:
        synonyms = _synonyms(words, options.synonyms, vocabulary)
        declared = {(one.position, one.term) for one in synonyms}
        stands = [one for one in stands if (one.position, one.term) not in declared or one.source != Source.CORRECTED]
        stands += synonyms
    reading = _reading(text, terms, words, stands, replaced, corrections, trust, vocabulary)
    return _by_field(reading, terms, stands, options.uncorrected_fields)


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
    position: int,
    word: _Word,
    options: ReadingOptions,
    vocabulary: Vocabulary,
    unfinished: bool,
    corrects: Callable[[Words], Mask] | None,
) -> tuple[list[_Stand], str]:
    """Return the corrections of an unknown word, and the best of them."""
    edits = (len(word.folded) >= options.one_edit) + (len(word.folded) >= options.two_edits)
    if not edits or not word.folded.isalpha() or is_unspaced(word.term) or _is_known(word.folded, options):
        return [], ""
    near = vocabulary.near(word.folded, edits)
    if unfinished and not (near and near[0][0] == 1):
        near = vocabulary.near_prefix(word.folded, edits) or near
    near = [one for one in near if one[1].isalpha()]
    if corrects is not None:
        numbers = number_words(" ".join(vocabulary.stems(other)) for _, other, _ in near)
        near = [one for one, usable in zip(near, corrects(numbers).tolist(), strict=True) if usable]
    if not near:
        return [], ""
    fewest, best, count = near[0]
    counted = [(other, n) for distance, other, n in near if distance == fewest and n >= RARE_CORRECTION * count]
    factor = CORRECTION_FACTORS[max(1, fewest)]
    kept = counted[:MAX_CORRECTIONS]
    return _stands(position, kept, None, factor, Source.CORRECTED, vocabulary), best


def _compounds(position: int, word: _Word, vocabulary: Vocabulary) -> list[_Stand]:
    """Return the parts of a compound, which share its factor, and the compounds that contain the word."""
    if not word.folded.isalpha():
        return []
    own = parts(word.folded, vocabulary)
    split = [(one, 1) for one in own or ()]
    return [
        *_stands(position, split, None, COMPOUND_FACTOR / 2, Source.EXACT, vocabulary),
        *_stands(position, compounds(word.folded, vocabulary), None, COMPOUND_FACTOR, Source.EXACT, vocabulary),
    ]


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


def _by_field(
    reading: Reading, terms: Sequence[str], stands: Sequence[_Stand], uncorrected_fields: frozenset[Field]
) -> Reading:
    """Return a reading whose corrections do not match in these fields."""
    corrected = tuple((one.term, one.factor) for one in stands if one.source == Source.CORRECTED)
    if not uncorrected_fields or not corrected:
        return reading
    others = ((one.term, one.factor) for one in stands if one.source != Source.CORRECTED)
    everywhere = (*((term, 1.0) for term in terms), *others)
    words = reading.words._replace(uncorrected_fields=uncorrected_fields)
    return replace(reading, words=words, terms=everywhere, corrected_terms=corrected)
