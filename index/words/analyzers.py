"""The analyzers of texts: one for each language."""

from functools import lru_cache

import tantivy

STEMMED = (
    "arabic danish dutch english finnish french german greek hungarian italian norwegian portuguese romanian russian "
    "spanish swedish tamil turkish"
).split()
"""Languages with a stemmer."""
LANGUAGES = sorted([*STEMMED, "chinese", "japanese", "korean", "thai"])
"""Languages of a collection. The language `none` and those without a stemmer index words as they are written. In every
language, runs of Chinese, Japanese, Korean and Thai characters are cut into pairs (`index.words.tokens`)."""

MAX_WORD_BYTES = 200


@lru_cache(64)
def analyzer_for(language: str) -> tantivy.TextAnalyzer:
    """Return the analyzer of the words of documents and queries: in lower case, without accents, stemmed.

    It cuts at spaces only: its texts come from `index.words.tokens`.
    """
    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace())
    builder = builder.filter(tantivy.Filter.remove_long(MAX_WORD_BYTES))
    builder = builder.filter(tantivy.Filter.lowercase()).filter(tantivy.Filter.ascii_fold())
    if language in STEMMED:
        builder = builder.filter(tantivy.Filter.stemmer(language))
    return builder.build()
