"""Whether documents have the synonyms that are declared for a word."""

from index.words.reading_options import ReadingOptions
from index.words.tokens import spaced
from index.words.vocabulary import Vocabulary


def known_count(synonym: str, vocabulary: Vocabulary) -> int:
    """Return the number of documents with the rarest word of a synonym, which may be a phrase."""
    return min(map(vocabulary.term_count, vocabulary.stems(spaced(synonym))), default=0)


def has_synonym(word: str, options: ReadingOptions, vocabulary: Vocabulary) -> bool:
    """Return whether documents have all words of a synonym of this word, which is in lower case."""
    declared = () if options.synonyms is None else options.synonyms.of([word])
    return any(known_count(other, vocabulary) for _, _, other in declared)
