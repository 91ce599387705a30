"""The schema of the queries and documents to judge."""

from typing import Literal

from service.http.answers import Answer, example
from service.search.answers import Snippet


class DocumentToJudge(Answer):
    """A document without a judgment for the query."""

    id: str
    """The id of the document."""
    title: str | None
    """The title."""
    snippet: Snippet
    """The part of the text that answers the query best."""
    rank: int | None
    """The position in the list of the champion, from 1; null if only the challenger has it among its first ten."""
    challenger_rank: int | None
    """The position in the list of the challenger; null without a challenger, or if only the champion has it."""
    disagreement: float | None
    """The difference of 1 / log2(1 + rank) between the two lists; null without a challenger."""


class QueryToJudge(Answer):
    """A query with documents to judge."""

    q: str
    """The text of the query."""
    searches: int
    """The number of its logged searches in the last 90 days."""
    clients: int
    """The number of clients that searched it or gave feedback on it in the last 90 days."""
    measure: Literal["disagreement", "entropy"]
    """What the uncertainty is: the disagreement of champion and challenger, or the entropy of the attention weights."""
    uncertainty: float
    """The sum of the documents' disagreement, or the entropy in nats."""
    score: float
    """The number of clients, at least 1, times the uncertainty."""
    reason: str
    """Why the query is in the list, in words."""
    documents: list[DocumentToJudge]
    """The documents, those whose ranks differ most first, then by rank."""


class Judging(Answer):
    """The queries and documents whose judgment decides most, the highest score first."""

    model_config = example(
        champion=6,
        challenger=7,
        queries=[
            {
                "q": "how do I copy a folder",
                "searches": 40,
                "clients": 12,
                "measure": "disagreement",
                "uncertainty": 0.37,
                "score": 4.44,
                "reason": "12 clients in 90 days; champion and challenger rank these documents differently "
                "(disagreement 0.37)",
                "documents": [
                    {
                        "id": "doc-7",
                        "title": "Copy a folder",
                        "snippet": {"text": "Copy a folder with cp -r.", "highlights": [{"start": 0, "end": 4}]},
                        "rank": 2,
                        "challenger_rank": 1,
                        "disagreement": 0.37,
                    }
                ],
            }
        ],
    )

    champion: int
    """The version of the champion."""
    challenger: int | None
    """The version of the challenger; null if there is none, or if it is the champion."""
    queries: list[QueryToJudge]
    """The queries."""
