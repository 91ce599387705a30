"""Spaces: words that are typed together, words and codes that are typed in parts, and numbers with separators.

The collection decides. A word that no document contains becomes two words that one document has:
`coaxialcable`, `4gb`. Neighbouring words are searched in their joined form too, where documents have it: `works
tation`, `WRT-54GL`, `16 gb`. Known words keep their own form, so pairs such as `a cross` are not joined to `across`.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from index.words.declared_synonyms import has_synonym
from index.words.inflections import is_regular_form
from index.words.query_words import Source
from index.words.reading_options import ReadingOptions, folded
from index.words.thousands import OtherForm, other_forms
from index.words.tokens import is_of_letters, is_unspaced, tokens
from index.words.vocabulary import Vocabulary, is_frequent
from index.words.word import Substitute, Word

LEAST_LETTERS, MOST_LETTERS = 4, 32
"""Shorter words of letters, and longer words, are not split."""
LEAST_PART = 3
"""Least letters of a part of a word of letters. Shorter parts must be close companions."""
COMPANION_SHARE = 0.5
"""Least share of the documents with the rarer of two close companions that has both."""
COMPANION_LIFT = 2.0
"""Close companions are in one document in at least so many times the documents that chance would have them in."""
JOINED_FACTOR = 0.9
"""How much the joined form of words counts beside the words."""
KNOWN_CODE_FACTOR = 0.75
"""The same for a code of known pieces, such as `16 gb`, of which other documents have the pieces."""


MOST_BEGUN = 32
"""Words that the second part of an unfinished code begins that are tried, the most frequent."""


UNIT = re.compile(r"\d+[^\W\d_]+")
"""A number with a unit."""


YEAR = re.compile(r"(?:1\d|20)(?!00)\d\d")
"""A number of four digits that may be a year, but for round ones."""


@dataclass(frozen=True)
class Spaces:
    """The words of a query with other spaces.

    words: the words, each unknown word that is split as its parts. joined: the joined forms of neighbouring words, and
    the other forms of numbers, at the position of each. respelled: first position -> the last position and the spelling
    of words whose typed form no document contains.
    """

    words: list[Word]
    joined: list[Substitute] = field(default_factory=list)
    respelled: Mapping[int, tuple[int, str]] = field(default_factory=dict)


def with_spaces(text: str, words: Sequence[Word], options: ReadingOptions, vocabulary: Vocabulary) -> Spaces:
    """Return the words of a query with other spaces. A word with another correction by one edit is not split."""
    made: list[Word] = []
    respelled: dict[int, tuple[int, str]] = {}
    for word in words:
        known = vocabulary.term_count(word.term)
        parts = [] if known and not word.folded[:1].isdigit() else _parts(text, word, known, options, vocabulary)
        if parts and not known:
            respelled[len(made)] = (len(made) + 1, " ".join(part.folded for part in parts))
        made += parts or [word]
    numbers = _other_numbers(text, made, options, vocabulary)
    joined, together = _joined(made, options, vocabulary, {one.position for one in numbers})
    return Spaces(made, joined + numbers, respelled | together)


def forms_of(text: str) -> list[str]:
    """Return the forms that `with_spaces` looks for in the vocabulary when it reads a text of known words."""
    words = [(token, folded(token.text)) for token in tokens(text)]
    joined = [form for *_, form in _forms([word for _, word in words])]
    return joined + [other.text for other in other_forms(text, words)]


def _parts(text: str, word: Word, known: int, options: ReadingOptions, vocabulary: Vocabulary) -> list[Word]:
    """Return the two words that an unknown word consists of.

    Nothing if documents have its synonym, or if it is one edit from a known word: but if that is one of the two, and
    neither is frequent, the two leave no letter out. `usbc` is `usb c` and not `usb`.

    known: the number of documents with the word. A number with a unit that documents write in one word is split too,
    if they write it in two words as often.
    """
    typed = word.folded
    of_letters = is_of_letters(typed)
    if len(typed) > MOST_LETTERS or not (of_letters or typed.isalnum()) or typed.isdigit() or is_unspaced(word.term):
        return []
    if of_letters and len(typed) < LEAST_LETTERS:
        return []
    if word.part or (known and not UNIT.fullmatch(typed)) or typed in options.uncorrected:
        return []
    if options.prefix and word.token.end == len(text) and vocabulary.beginning(typed):
        return []
    if typed in options.known or is_regular_form(typed, options.known):
        return []
    if of_letters and has_synonym(typed, options, vocabulary):
        return []
    only_short = of_letters and options.compounds  # `split_compounds` has seen compounds of longer parts
    best = max(_splits(typed, bool(known), vocabulary, only_short), default=None)
    if best is None and not of_letters and options.prefix and word.token.end == len(text):
        best = max(_begun(typed, vocabulary), default=None)
    if best is None or best[0] < known:
        return []
    if of_letters and len(typed) >= options.one_edit:
        near = {other for _, other, _ in vocabulary.near(typed, 1)}
        if near and (near.isdisjoint(best[2:]) or any(map(vocabulary.is_frequent, best[2:]))):
            return []
    terms = [vocabulary.stems(part) for part in best[2:]]
    if any(len(of) != 1 for of in terms):
        return []
    return [replace(word, folded=part, term=of[0], part=True) for part, of in zip(best[2:], terms, strict=True)]


def _splits(
    typed: str, is_known: bool, vocabulary: Vocabulary, only_short: bool
) -> Iterator[tuple[int, int, str, str]]:
    """Yield (documents with both parts, documents with the rarer part, first, second) of the ways to split a word.

    only_short: only with a short part, such as `de longhi`.

    The parts of a known word stand together more often than by chance, so that `1910s` is no number with a unit where
    many words end in 's.
    """
    of_letters = is_of_letters(typed)
    places = [at for at in range(1, len(typed)) if of_letters or _is_border(typed, at)]
    places = [at for at in places if not only_short or min(at, len(typed) - at) < LEAST_PART]
    counts = vocabulary.counts([part for at in places for part in (typed[:at], typed[at:])])
    for at, first, second in zip(places, counts[::2], counts[1::2], strict=True):
        both = vocabulary.count_together(typed[:at], typed[at:]) if first and second else 0
        is_short = of_letters and min(at, len(typed) - at) < LEAST_PART
        share = COMPANION_SHARE if is_short else 0.0
        lift = COMPANION_LIFT if is_short or is_known else 0.0
        above_chance = both * vocabulary.documents >= lift * first * second
        if both and both >= share * min(first, second) and above_chance:
            yield both, min(first, second), typed[:at], typed[at:]


def _begun(typed: str, vocabulary: Vocabulary) -> Iterator[tuple[int, int, str, str]]:
    """Yield the ways to split an unfinished code whose second part begins a word, as `_splits` does: `rtx40`."""
    for at in range(1, len(typed)):
        first, rest = typed[:at], typed[at:]
        if not _is_border(typed, at) or not vocabulary.count(first):
            continue
        begun = vocabulary.beginning(rest)[:MOST_BEGUN]
        together = vocabulary.counts([f"{first} {other}" for other, _ in begun])  # at once, for parts on other machines
        yield from ((both, count, first, rest) for both, (_, count) in zip(together, begun, strict=True) if both)


def _is_border(typed: str, at: int) -> bool:
    """Return whether a digit meets a letter at a place."""
    return typed[at - 1].isdigit() != typed[at].isdigit()


def _joined(
    words: Sequence[Word], options: ReadingOptions, vocabulary: Vocabulary, numbers: Collection[int]
) -> tuple[list[Substitute], dict[int, tuple[int, str]]]:
    """Return the joined forms of neighbouring words, and those that are the spelling of unknown words.

    numbers: the positions of numbers that documents write in another form. They are known.
    """
    forms = list(_forms(["" if _is_kept(word, options) else word.folded for word in words]))
    if not forms:
        return [], {}
    joined: list[Substitute] = []
    respelled: dict[int, tuple[int, str]] = {}
    done = 0
    for (first, last, form), count in zip(forms, vocabulary.counts([form for *_, form in forms]), strict=True):
        terms = vocabulary.stems(form) if count else ()
        if len(terms) != 1:
            continue
        counts = [vocabulary.term_count(word.term) for word in words[first : last + 1]]
        if all(counts) and not _are_joined(words[first : last + 1], counts, count, vocabulary.documents):
            continue
        idf = vocabulary.term_idf(terms[0])
        factor = KNOWN_CODE_FACTOR if all(counts) and not is_of_letters(form) else JOINED_FACTOR
        for position in range(first, last + 1):
            own = vocabulary.term_idf(words[position].term) if all(counts) else idf / len(counts)  # counts once
            joined.append(Substitute(position, terms[0], min(idf, own), factor, Source.EXACT))
        unknown = [at for at, known in enumerate(counts, first) if not known and at not in numbers]
        if unknown and first >= done and not any(word.part for word in words[first : last + 1]):
            respelled[first], done = (last, form), last + 1
    return joined, respelled


def _other_numbers(
    text: str, words: Sequence[Word], options: ReadingOptions, vocabulary: Vocabulary
) -> list[Substitute]:
    """Return the numbers of a query with or without separators, where documents write them so.

    A number that documents write as it was typed keeps its weight: the words of the other form may stand apart. If it
    looks like a year, it is one: no document is searched for `1,984`.
    """
    typed = [
        ""
        if _is_kept(word, options) or (YEAR.fullmatch(word.folded) and vocabulary.term_count(word.term))
        else word.folded
        for word in words
    ]
    others = list(other_forms(text, [(word.token, form) for word, form in zip(words, typed, strict=True)]))
    found: list[Substitute] = []
    for other, count in zip(others, vocabulary.counts([other.text for other in others]), strict=True):
        terms = vocabulary.stems(other.text) if count else ()
        if len(terms) == len(other.text.split()):
            found += _in_place_of(
                words, other, " ".join(terms), vocabulary.idf_together([other.text], count), vocabulary
            )
    return found


def _in_place_of(
    words: Sequence[Word], other: OtherForm, term: str, idf: float, vocabulary: Vocabulary
) -> Iterator[Substitute]:
    """Yield the substitutes of the words of a number. Unknown words share its idf: it counts once."""
    counts = [vocabulary.term_count(word.term) for word in words[other.first : other.last + 1]]
    for position in range(other.first, other.last + 1):
        own = vocabulary.term_idf(words[position].term) if all(counts) else idf / len(counts)
        yield Substitute(position, term, own, JOINED_FACTOR, Source.EXACT)


def _forms(words: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    """Yield first and last position, and the joined form of neighbouring words; codes of three pieces first.

    Nothing is joined with an empty word.
    """
    for first, (one, two) in enumerate(pairwise(words)):
        if one and two:
            form = one + two
            if first + 2 < len(words) and words[first + 2] and _is_code(form + words[first + 2]):
                yield first, first + 2, form + words[first + 2]
            if is_of_letters(form) or _is_code(form):
                yield first, first + 1, form


def _is_code(form: str) -> bool:
    """Return whether a form has letters and digits."""
    return not is_of_letters(form) and not form.isdigit() and form.isalnum()


def _is_kept(word: Word, options: ReadingOptions) -> bool:
    """Return whether a word keeps its form: it is of a script without spaces, or is never corrected."""
    return word.folded in options.uncorrected or (not word.folded.isascii() and is_unspaced(word.term))


def _are_joined(words: Sequence[Word], counts: Sequence[int], joined: int, documents: int) -> bool:
    """Return whether known words are searched in their joined form, which so many documents have.

    A pair of words of letters is joined if one of them is rarer than the joined form, and none is frequent. A code is
    joined if it begins with a digit or no piece of letters is frequent: `16 gb` and `2 in 1`, but not `a 4`.
    """
    of_letters = [count for word, count in zip(words, counts, strict=True) if is_of_letters(word.folded)]
    none_frequent = not is_frequent(max(of_letters, default=0), documents)
    if len(of_letters) == len(words):
        return min(counts) < joined and none_frequent
    return words[0].folded[0].isdigit() or none_frequent
