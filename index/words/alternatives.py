"""Finds the words that stand for a word of a query: completions, corrections, parts of compounds, and synonyms.

`index.words.spaces` finds words with other spaces.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise, starmap
from operator import itemgetter
from typing import NamedTuple

from index.words import participles
from index.words.compounds import compounds, parts, parts_of_unknown
from index.words.declared_synonyms import has_synonym, known_count
from index.words.inflections import is_regular_form
from index.words.near_words import Near
from index.words.postings import Counted
from index.words.query_words import Source
from index.words.reading_options import ReadingOptions
from index.words.spaces import Spaces
from index.words.tokens import is_of_letters, is_unspaced, share_a_character, spaced
from index.words.vocabulary import Vocabulary, is_frequent
from index.words.word import Substitute, Word

MAX_COMPLETIONS = 64
"""Completions of a word that may be unfinished, the most frequent."""
MAX_CORRECTIONS = 3
"""Corrections of a word, the most frequent of those with the fewest edits."""
CORRECTION_FACTORS = {1: 0.9, 2: 0.7}
"""Edits -> how much a corrected word counts beside an exact word."""
COMPLETION_FACTOR = 0.9
LIKELY_COMPLETION = 0.1
"""Least likelihood of a completion that is encoded: its share of the counts of all completions, times typed letters
over letters. Otherwise the unfinished word is left out of the text that is encoded."""
MOST_DOCUMENTS = 5000
"""Documents up to which an unfinished character of a script without spaces stands for the pairs that it ends, too. The
first such query after a change of the collection reads all words, which takes up to a second, and longer with more."""
SYNONYM_FACTOR = 0.9
FORM_FACTOR = 0.7
"""How much a participle counts in place of its verb, and a verb in place of its participle."""
COMPOUND_FACTOR = 0.6
POSSIBLE_COMPOUND_FACTOR = 0.4
"""Factor of a compound whose other part is no word of the collection."""
LEAST_MISTYPED = 4
"""Least letters of a word in many documents that replaces a word with another first letter."""
RARE_CORRECTION = 0.1
"""Least count of a correction, as a share of the count of the most frequent correction with as many edits."""


@dataclass
class Alternatives:
    """What stands for the words of a query.

    replaced: position -> the word that replaces it. through: position -> the last position that its word replaces, if
    that is another. meant: position -> the synonym that is encoded in place of a word that no document has.
    corrections: pairs (from, to). trust: the share of the text that is known, in [0, 1]. unfinished: whether the last
    word is the beginning of words, and not likely a word itself.
    completed: whether `replaced` has a completion. without_last: whether no completion is likely, so that the last word
    is not encoded.
    """

    substitutes: list[Substitute] = field(default_factory=list)
    replaced: dict[int, str] = field(default_factory=dict)
    through: dict[int, int] = field(default_factory=dict)
    meant: dict[int, str] = field(default_factory=dict)
    corrections: list[tuple[str, str]] = field(default_factory=list)
    trust: float = 1.0
    unfinished: bool = False
    completed: bool = False
    without_last: bool = False


def alternatives(text: str, spaces: Spaces, options: ReadingOptions, vocabulary: Vocabulary) -> Alternatives:
    """Return what stands for the words of a query.

    A word that has completions, or that is spelled with other spaces, gets no corrections. A word with a synonym that
    the collection has is no mistake: it is corrected to its synonyms alone, and such a correction is a synonym.
    """
    words = spaces.words
    replacements = _replacements(words, options, vocabulary)
    declared = _declared(replacements)
    forms = _verb_forms(words, options, vocabulary)
    formed = {form.position for form in forms}
    found = Alternatives(list(spaces.joined) + forms)
    respelled_to = 0
    for position, word in enumerate(words):
        if position in spaces.respelled:
            last = _respell(found, position, text, spaces, vocabulary)
            respelled_to = last + 1 if not word.part else respelled_to
        if position < respelled_to:
            continue
        unfinished = options.prefix and position == len(words) - 1 and _may_go_on(words, text)
        completed = False
        if unfinished or is_unspaced(word.term):
            completed = _complete(found, position, words, unfinished, vocabulary)
        if not completed and position not in formed:
            _correct(found, position, words, text, unfinished, options, vocabulary, declared.get(position))
        elif options.compounds:
            found.substitutes += _compound_words(position, word, vocabulary)
    found.substitutes += [one for each in replacements for one in _substitutes_of(each, vocabulary)]
    if options.typos:  # without them, a text is encoded as it is
        found.meant = _meant(words, found, replacements, vocabulary)
    return found


def _may_go_on(words: Sequence[Word], text: str) -> bool:
    """Return whether the last word ends the text, as a word of its own: a fraction is one character and two words."""
    last = words[-1]
    is_of_several = len(words) > 1 and not last.part and words[-2].token.start == last.token.start
    return last.token.end == len(text) and not is_of_several


def _respell(found: Alternatives, position: int, text: str, spaces: Spaces, vocabulary: Vocabulary) -> int:
    """Add the spelling with other spaces that begins at a position; return its last position."""
    last, spelling = spaces.respelled[position]
    spelling = vocabulary.written(spelling)
    found.replaced[position], found.through[position] = spelling, last
    typed = text[spaces.words[position].token.start : spaces.words[last].token.end]
    found.corrections.append((typed, spelling))
    return last


def split_compounds(text: str, words: Sequence[Word], options: ReadingOptions, vocabulary: Vocabulary) -> list[Word]:
    """Return the words of a query, with the parts of each compound that no document contains in its place."""
    return [part for word in words for part in _split(word, text, options, vocabulary)]


def _split(word: Word, text: str, options: ReadingOptions, vocabulary: Vocabulary) -> list[Word]:
    """Return the parts of a word. A correction of the word comes before parts of which the collection lacks one."""
    if not is_of_letters(word.folded) or is_unspaced(word.term) or vocabulary.term_count(word.term):
        return [word]
    if has_synonym(word.folded, options, vocabulary):
        return [word]
    if options.participles and participles.other_forms([word], vocabulary)[0]:
        return [word]
    unfinished = options.prefix and word.token.end == len(text)
    if unfinished and vocabulary.beginning(word.folded):
        return [word]
    found = parts_of_unknown(word.folded, vocabulary)
    if found is None or compounds(word.folded, vocabulary):
        return [word]
    terms = [vocabulary.stems(part) for part in found]
    if any(len(of) != 1 for of in terms):
        return [word]
    known = all(vocabulary.term_count(term) for (term,) in terms)
    if not known and not word.part and options.typos and _corrections(0, word, options, vocabulary, unfinished)[0]:
        return [word]
    pieces = [replace(word, folded=part, term=term, part=True) for part, (term,) in zip(found, terms, strict=True)]
    return [part for piece in pieces for part in _split(piece, text, options, vocabulary)]


def _complete(
    found: Alternatives, position: int, words: Sequence[Word], may_go_on: bool, vocabulary: Vocabulary
) -> bool:
    """Add the completions of a word; return whether there are any. may_go_on: whether nothing follows the word."""
    word = words[position]
    is_one = len(word.folded) == 1 and is_unspaced(word.folded)  # the other words with it are pairs: it ends them too
    ends = is_one and (not may_go_on or vocabulary.documents <= MOST_DOCUMENTS)
    most = MAX_COMPLETIONS if may_go_on else None  # a whole character is found in every pair with it
    substitutes, best, share = _completions(position, word, vocabulary, ends, most)
    found.substitutes += substitutes
    if best and may_go_on:
        likelihood = share * len(word.folded) / len(best)
        found.without_last = likelihood < LIKELY_COMPLETION and not word.part
        found.unfinished = found.without_last or best != word.folded
        found.trust = (len(words) - 1 + (0 if found.without_last else likelihood)) / len(words)
        found.completed = best != word.folded and not word.part
        if found.completed:
            found.replaced[position] = vocabulary.written(best)
    return bool(substitutes)


def _correct(
    found: Alternatives,
    position: int,
    words: Sequence[Word],
    text: str,
    unfinished: bool,
    options: ReadingOptions,
    vocabulary: Vocabulary,
    synonyms: set[str] | None = None,
) -> None:
    """Add the compounds of a word, and the corrections of an unknown word that has none.

    synonyms: terms of the collection that are declared to stand for the word. It is corrected to one of them or not.
    """
    word = words[position]
    in_compounds = _compound_words(position, word, vocabulary) if options.compounds else []
    found.substitutes += in_compounds
    if not options.typos or in_compounds or vocabulary.term_count(word.term):
        return
    substitutes, best = _corrections(position, word, options, vocabulary, unfinished)
    if synonyms and synonyms.isdisjoint(vocabulary.stems(best)):
        return
    if not synonyms:  # else the synonyms stand for the word already, as exact words
        found.substitutes += substitutes
    if substitutes and not word.part:
        found.replaced[position] = written = vocabulary.written(best)
        found.corrections.append((text[word.token.start : word.token.end], written))


def _completions(
    position: int, word: Word, vocabulary: Vocabulary, ends: bool, most: int | None
) -> tuple[list[Substitute], str, float]:
    """Return the completions of a word, the best of them, and its share of the counts; itself where it is a word.

    ends: whether words that end with the word stand for it too. They are no completions: the best is "" without others.
    most: how many completions are returned, the most frequent; None for all.
    """
    if not word.folded:
        return [], "", 0.0
    beginning = vocabulary.beginning(word.folded)
    every = list(beginning)
    if ends:
        every += (one for one in vocabulary.ending(word.folded) if not one[0].startswith(word.folded))
        every.sort(key=lambda one: (-one[1], one[0]))
    counted = [one for one in every[:most] if one[0] != word.folded]
    if not counted:
        return [], "", 0.0
    of_beginning = sum(map(itemgetter(1), beginning))
    total = sum(map(itemgetter(1), every)) if ends else of_beginning
    idf = vocabulary.idf_together([one for one, _ in counted], total)
    substitutes = _substitutes(position, counted, idf, COMPLETION_FACTOR, Source.COMPLETED, vocabulary)
    longer = next((one for one in beginning if one[0] != word.folded), None)
    if longer is None:
        return substitutes, "", 0.0
    own = vocabulary.count(word.folded)
    best, count = (word.folded, own) if own else longer
    return substitutes, best, count / of_beginning


def _corrections(
    position: int, word: Word, options: ReadingOptions, vocabulary: Vocabulary, unfinished: bool
) -> tuple[list[Substitute], str]:
    """Return the corrections of an unknown word, and the best of them."""
    edits = (len(word.folded) >= options.one_edit) + (len(word.folded) >= options.two_edits)
    if not edits or not is_of_letters(word.folded) or is_unspaced(word.term) or _is_known(word.folded, options):
        return [], ""
    near = _possible(word.folded, vocabulary.near(word.folded, edits), vocabulary)
    if unfinished and not (near and near[0][0] == 1):
        near = _possible(word.folded, vocabulary.near_prefix(word.folded, edits), vocabulary) or near
    if not near:
        return [], ""
    fewest, best, count = near[0]
    counted = [(other, n) for distance, other, n in near if distance == fewest and n >= RARE_CORRECTION * count]
    factor = CORRECTION_FACTORS[max(1, fewest)]
    kept = counted[:MAX_CORRECTIONS]
    return _substitutes(position, kept, None, factor, Source.CORRECTED, vocabulary), best


def _possible(typed: str, near: Sequence[Near], vocabulary: Vocabulary) -> list[Near]:
    return [one for one in near if is_of_letters(one[1]) and not _is_other_word(typed, one, vocabulary)]


def _is_other_word(typed: str, near: Near, vocabulary: Vocabulary) -> bool:
    """Return whether a near word is rather another word than what was meant: `aus` in place of `Haus`.

    It is short and in many documents, and begins with another letter, which people rarely mistype.
    """
    _, other, count = near
    swapped = typed[:2] == other[:2][::-1]
    return (
        is_frequent(count, vocabulary.documents)
        and len(other) < LEAST_MISTYPED
        and other[:1] != typed[:1]
        and not swapped
    )


def _compound_words(position: int, word: Word, vocabulary: Vocabulary) -> list[Substitute]:
    """Return the parts of a known compound, which share its factor, and the compounds that contain the word."""
    if not is_of_letters(word.folded):
        return []
    own = [(one, 1) for one in parts(word.folded, vocabulary) or ()]
    found = _substitutes(position, own, None, COMPOUND_FACTOR / 2, Source.EXACT, vocabulary)
    for one in compounds(word.folded, vocabulary):
        factor = COMPOUND_FACTOR if one.known else POSSIBLE_COMPOUND_FACTOR
        found.append(Substitute(position, one.term, vocabulary.term_idf(one.term), factor, Source.EXACT))
    return found


def _verb_forms(words: Sequence[Word], options: ReadingOptions, vocabulary: Vocabulary) -> list[Substitute]:
    """Return the verbs of participles and the participles of verbs among the words of a query."""
    if not options.participles:
        return []
    found = []
    for position, terms in enumerate(participles.other_forms(words, vocabulary)):
        known = vocabulary.term_count(words[position].term) > 0
        own = vocabulary.term_idf(words[position].term)
        for term in terms:
            idf = min(own, vocabulary.term_idf(term))
            found.append(Substitute(position, term, idf, FORM_FACTOR, Source.EXACT, keeps_weight=known))
    return found


def _is_known(word: str, options: ReadingOptions) -> bool:
    return word in options.uncorrected or word in options.known or is_regular_form(word, options.known)


def _substitutes(
    position: int, counted: Sequence[Counted], idf: float | None, factor: float, source: Source, vocabulary: Vocabulary
) -> list[Substitute]:
    """Return the terms of words that stand for the word at a position; without an idf, each takes its own."""
    terms = [of[0] for of in (vocabulary.stems(other) for other, _ in counted) if len(of) == 1]
    own = (vocabulary.term_idf(term) if idf is None else idf for term in terms)
    return [Substitute(position, term, of, factor, source) for term, of in zip(terms, own, strict=True)]


class Replacement(NamedTuple):
    """A synonym of the words [first, end) of a query: its terms, and in how many documents the rarest of them is."""

    first: int
    end: int
    text: str
    terms: tuple[str, ...]
    documents: int


def _replacements(words: Sequence[Word], options: ReadingOptions, vocabulary: Vocabulary) -> list[Replacement]:
    """Return the declared synonyms of the words of a query."""
    declared = () if options.synonyms is None else options.synonyms.of([word.folded for word in words])
    return [
        Replacement(first, end, other, vocabulary.stems(spaced(other)), known_count(other, vocabulary))
        for first, end, other in declared
    ]


def _declared(replacements: Sequence[Replacement]) -> dict[int, set[str]]:
    """Return position -> the terms of the synonyms there whose words documents have."""
    declared: dict[int, set[str]] = {}
    for one in replacements:
        for position in range(one.first, one.end) if one.documents else ():
            declared.setdefault(position, set()).update(one.terms)
    return declared


def _meant(
    words: Sequence[Word], found: Alternatives, replacements: Sequence[Replacement], vocabulary: Vocabulary
) -> dict[int, str]:
    """Return the most frequent synonym of each word that no document has: position -> word or words of documents.

    A word that overlaps another one, or is replaced already, keeps its text.
    """
    replaced = {at for first in found.replaced for at in range(first, found.through.get(first, first) + 1)}
    best: dict[int, Replacement] = {}
    for one in replacements:
        word = words[one.first]
        if one.end > one.first + 1 or one.first in replaced or vocabulary.term_count(word.term):
            continue
        if word.part or is_unspaced(word.term) or _overlaps(words, one.first):
            continue
        if one.documents > (best[one.first].documents if one.first in best else 0):
            best[one.first] = one
    return {position: one.text for position, one in best.items()}


def _overlaps(words: Sequence[Word], position: int) -> bool:
    """Return whether characters of a word belong to a neighbour too: a fraction is one character and two words."""
    before, after = words[:position][-1:], words[position + 1 :][:1]
    token = words[position].token
    return any(one.token.end > token.start for one in before) or any(one.token.start < token.end for one in after)


def _substitutes_of(one: Replacement, vocabulary: Vocabulary) -> list[Substitute]:
    """Return what stands for each word that a synonym replaces: its term, or its phrase and the words of the phrase.

    A phrase has the mean idf of its terms, so that it counts as they do together. Its words share its factor.
    """
    if not one.terms:
        return []
    idf = [vocabulary.term_idf(term) for term in one.terms]
    factor = SYNONYM_FACTOR / len(one.terms)
    phrase = Substitute(one.first, " ".join(one.terms), sum(idf) / len(idf), SYNONYM_FACTOR, Source.EXACT)
    words = [
        Substitute(one.first, one.terms[at], idf[at], factor, Source.EXACT, of_phrase=True)
        for at in _whole_words(one.terms)
    ]
    found = [phrase, *words] if len(one.terms) > 1 else [phrase]
    return [replace(each, position=position) for position in range(one.first, one.end) for each in found]


def _whole_words(terms: Sequence[str]) -> list[int]:
    """Return the places of the terms that are words: a pair of a longer run without spaces is a part of a word."""
    overlap = list(starmap(share_a_character, pairwise(terms)))
    return [at for at, (before, after) in enumerate(pairwise([False, *overlap, False])) if not before and not after]
