"""The schemas of the answer to a search. Optional fields are there if a search asks for them."""

from typing import Literal

from pydantic import Field

from service.http.answers import Answer, Problem, example, sometimes
from service.search.matrix_answers import Matrix
from service.search.taste_answers import TasteDocument

MetadataValue = str | float | bool | list[str | float | bool]


class Highlight(Answer):
    """A range of characters of a field that is a word of the query."""

    field: Literal["title", "text"]
    """The field."""
    start: int
    """The first character, from 0."""
    end: int
    """The character after the last."""


class SnippetHighlight(Answer):
    """A range of characters of a snippet that is a word of the query."""

    start: int
    """The first character of the snippet, from 0."""
    end: int
    """The character after the last."""


class Snippet(Answer):
    """The part of a text that answers the query best."""

    text: str
    """The part of the text."""
    highlights: list[SnippetHighlight]
    """The words of the query in this part."""


class PastFeedback(Answer):
    """A piece of feedback that a past query gave to the document."""

    from_: Literal["event", "judgment"] = Field(alias="from")
    """The kind of feedback."""
    query_id: str | None
    """The search that the event belongs to."""
    action_name: str = sometimes()
    """The action of an event."""
    rating: int = sometimes()
    """The rating of a judgment."""
    timestamp: str
    """The time of the feedback."""


class MatchedKey(Answer):
    """A key of the document that matched the query: a part of the document, or a past query that confirmed it."""

    kind: Literal["title", "passage", "sentence", "query"]
    """The kind of the key."""
    cosine: float
    """The cosine of the query and the key."""
    share: float
    """The share of the key in the evidence of its kind; negative for a past query with negative feedback."""
    start: int = sometimes()
    """The first character of the part, from 0; not for a past query."""
    end: int = sometimes()
    """The character after the last; not for a past query."""
    query: str | None = sometimes()
    """The text of a past query; null for anonymous memory, which has no text."""
    confirmations: int = sometimes()
    """The number of merged pieces of feedback of a past query."""
    from_: Literal["event", "judgment", "anonymous"] = sometimes(alias="from")
    """The kind of the newest feedback of a past query."""
    query_id: str | None = sometimes()
    """The search of the newest feedback of a past query."""
    feedback: list[PastFeedback] = sometimes()
    """The newest ten pieces of feedback of a past query."""


class Explanation(Answer):
    """Why a document has its logit."""

    parts: dict[str, float]
    """The parts of the logit by name; they sum to the logit."""
    keys: list[MatchedKey]
    """The keys that matched the query; a recommendation has none."""
    documents: list[TasteDocument] = sometimes()
    """Recommendations only: the liked documents, then the disliked documents, the largest share first."""
    rule: str = sometimes()
    """The id of the rule that placed the document."""


class Hit(Answer):
    """A document that a search returned. `fields` selects title, text, url and metadata."""

    id: str
    """The id of the document."""
    position: int
    """The position in the list, from 1, across pages."""
    score: float
    """The attention weight. All weights and `null_weight` sum to 1."""
    logit: float
    """The sum of the evidence. Thresholds go on this number."""
    title: str | None = sometimes()
    """The title."""
    text: str = sometimes()
    """The text."""
    url: str | None = sometimes()
    """The address."""
    metadata: dict[str, MetadataValue] = sometimes()
    """The metadata."""
    highlights: list[Highlight] = sometimes()
    """The words of the query in title and text."""
    explain: Explanation = sometimes()
    """With `explain`: the parts of the logit and the keys behind them."""
    snippet: Snippet = sometimes()
    """With `snippet`: the part of the text that answers the query best."""
    pinned: bool = sometimes()
    """Whether a rule placed the document here."""


class Attention(Answer):
    """The attention over all candidates."""

    temperature: float
    """The factor between evidence and logits, inverted."""
    entropy: float
    """The entropy of the weights, in nats."""
    null_weight: float
    """The weight of the null slot: no document answers this query."""
    null_calibrated: bool
    """Whether the model fitted the null weight to this collection: one half or more is then rarely said of a query that
    is answered. False for the modes `dense` and `words`, for which it is not fitted."""
    shown_mass: float
    """The sum of the weights of the hits of this page."""
    candidates: int
    """The number of candidates."""


class Page(Answer):
    """The page of a search."""

    limit: int
    """The number of hits asked for."""
    offset: int
    """The number of hits skipped."""
    has_more: bool
    """Whether there are candidates after this page."""


class UsedModel(Answer):
    """The model that ranked a search."""

    version: int
    """The version; 0 is the untrained model."""
    alias: str | None
    """The alias that the search named; null if it named a version."""


class WeightedValue(Answer):
    """A value of a field with its share of the attention."""

    value: str | float | bool
    """The value."""
    weight: float
    """The share of the attention."""


class Prediction(Answer):
    """The distribution of a metadata field over the candidates, weighted by attention."""

    type: Literal["categories", "number"]
    """Whether the field has numbers only."""
    distribution: list[WeightedValue] = sometimes()
    """Categories only: the 20 best values."""
    other_weight: float = sometimes()
    """Categories only: the weight of all other values."""
    mean: float = sometimes()
    """Numbers only: the weighted mean."""
    standard_deviation: float = sometimes()
    """Numbers only: the weighted standard deviation."""
    quantiles: dict[str, float] = sometimes()
    """Numbers only: quantiles by level, such as `0.5`."""
    coverage: float
    """The share of the candidates with the field in the weight of all candidates."""
    effective_sample_size: float
    """The number of documents of equal weight with the same variance."""
    documents: int
    """The number of candidates that have the field."""


class Facet(Answer):
    """The values of a metadata field over the documents that match."""

    values: dict[str, int] = sometimes()
    """Value to number of documents."""
    min: float = sometimes()
    """Numbers only: the least value."""
    max: float = sometimes()
    """Numbers only: the greatest value."""
    mean: float = sometimes()
    """Numbers only: the mean."""


class Correction(Answer):
    """A word of the query that was searched with another spelling."""

    from_: str = Field(alias="from")
    """The word of the query."""
    to: str
    """The word that was searched."""


class AnswerSpan(Answer):
    """The sentence of the first three hits with the most attention."""

    id: str
    """The id of the document."""
    start: int
    """The first character of the sentence in the text of the document, from 0."""
    end: int
    """The character after the last."""
    text: str
    """The sentence. Short neighbours are joined."""
    weight: float
    """The attention weight of the sentence: the weights of the sentences of a document sum to its `score`."""


class OperatorCondition(Answer):
    """A condition `field:value` in a query."""

    field: str
    """The field."""
    value: str
    """The value."""


class Operators(Answer):
    """The operators that were read in a query."""

    phrases: list[str]
    """The exact phrases that documents must contain."""
    excluded: list[str]
    """The words and phrases that documents must not contain."""
    conditions: list[OperatorCondition]
    """The conditions on fields."""


class SearchAnswer(Answer):
    """The hits of a search, and how attention found them."""

    model_config = example(
        query_id="0199c7a0-0000-7000-8000-000000000000",
        hits=[
            {
                "id": "doc-7",
                "position": 1,
                "score": 0.41,
                "logit": 12.2,
                "title": "Copying folders",
                "text": "Use cp -r to copy a folder.",
                "url": None,
                "metadata": {"lang": "en", "year": 2020},
                "highlights": [{"field": "text", "start": 12, "end": 16}],
            }
        ],
        score_kind="attention_weight",
        attention={
            "temperature": 0.05,
            "entropy": 2.9,
            "null_weight": 0.04,
            "null_calibrated": True,
            "shown_mass": 0.41,
            "candidates": 200,
        },
        page={"limit": 1, "offset": 0, "has_more": True},
        model={"version": 12, "alias": "champion"},
        generation=81234,
        degraded=[],
        took_ms=4.6,
        timings_ms={"queue": 0.1, "filter": 0.0, "encode": 1.2, "retrieve": 2.0, "attend": 0.5, "fields": 0.7},
    )

    query_id: str
    """The id of this search, for events."""
    hits: list[Hit]
    """The documents, best first."""
    score_kind: Literal["attention_weight"]
    """What `score` is."""
    attention: Attention
    """The attention over all candidates."""
    page: Page
    """The page."""
    model: UsedModel
    """The model that ranked."""
    generation: int
    """The watermark of the searched state: the number of visible changes."""
    degraded: list[str]
    """Reasons why the answer is less than it should be, such as `champion_damaged`."""
    missing_share: float = sometimes()
    """With `partition_away` in `degraded`: the share of the documents that was not searched."""
    took_ms: float
    """Milliseconds from the arrival of the request to the answer."""
    timings_ms: dict[str, float]
    """The parts of `took_ms`."""
    matrix: Matrix = sometimes()
    """With `"explain": "matrix"`: two matrices about the hits of this page."""
    everything: bool = sometimes()
    """True for a query without words: all documents are hits, and the search is not logged."""
    explored: bool = sometimes()
    """With `explore`: whether the order of the hits was sampled from the attention."""
    pooled: list[float] = sometimes()
    """With `pooled`: the sum of weight times stored value over all candidates."""
    predictions: dict[str, Prediction] = sometimes()
    """With `predict`: the distribution of each field."""
    facets: dict[str, Facet] = sometimes()
    """With `facets`: the values of each field."""
    matching: int = sometimes()
    """With `count`: the number of documents that pass the filter and contain a word of the query."""
    corrections: list[Correction] = sometimes()
    """Words of the query that were searched with another spelling."""
    operators: Operators = sometimes()
    """With `operators`: what was read."""
    answer: AnswerSpan | None = sometimes()
    """With `answer`: the sentence with the most attention; null if nothing is found or `answered` is false."""
    answered: bool | None = sometimes()
    """Whether the null weight is below one half; null where it is not calibrated."""


class MultiSearchAnswer(Answer):
    """The answers of several searches. A search that failed has its problem in its place."""

    model_config = example(results=[])

    results: list[SearchAnswer | Problem]
    """The answers, in the order of the searches."""
