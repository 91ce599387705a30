"""The schemas of the two matrices that a search returns with `"explain": "matrix"`."""

from typing import Literal

from service.http.answers import Answer, sometimes


class QueryWord(Answer):
    """A word of the query: a row of a matrix."""

    word: str
    """The word as it stands in the text of the query."""
    start: int
    """The first character in `text`, from 0."""
    end: int
    """The character after the last."""


class ShownKey(Answer):
    """A key of a hit: a column of a matrix."""

    id: str
    """The id of the document."""
    kind: Literal["title", "passage", "sentence"]
    """The kind of the key."""
    start: int
    """The first character of the part, from 0: in the title for a title, in the text for the other kinds."""
    end: int
    """The character after the last."""
    share: float
    """The share of the key in the evidence of its kind."""
    cosine: float
    """The cosine of the whole query and the key."""


class WordsByKeys(Answer):
    """The effect of each word of the query on each key, by occlusion."""

    text: str
    """The text that is encoded: the query without its operators, corrected and completed."""
    words: list[QueryWord]
    """The rows: the first 32 words of the text."""
    keys: list[ShownKey]
    """The columns: the keys with the largest shares, by hit."""
    cells: list[list[float]]
    """A row for each word: the cosine of the whole query and the key, minus the cosine without the word."""
    words_left_out: int
    """The number of words after the first 32."""


class ShownDocument(Answer):
    """A hit: a column of a matrix."""

    id: str
    """The id of the document."""
    logit: float
    """The sum of the column."""


class PartsByDocuments(Answer):
    """The parts of the logits of the hits."""

    parts: list[str]
    """The rows: the names of the parts."""
    documents: list[ShownDocument]
    """The columns: the first ten hits of the page."""
    cells: list[list[float]]
    """A row for each part: its value in the logit of each hit."""


class Matrix(Answer):
    """Two matrices about the first ten hits of a page."""

    words_by_keys: WordsByKeys = sometimes()
    """Words of the query by keys; not in the mode `words`, and not for a query without words."""
    parts_by_documents: PartsByDocuments
    """Parts of the logit by hits."""
