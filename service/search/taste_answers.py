"""The schema of liked and disliked documents in the explanation of a recommended document."""

from typing import Literal

from service.http.answers import Answer


class TasteDocument(Answer):
    """A liked or disliked document, with its share in the logit of a recommended document."""

    id: str
    """The id of the document."""
    part: Literal["like", "dislike"]
    """The part of the logit that it belongs to."""
    cosine: float
    """The cosine of the values of both documents."""
    share: float
    """The share of the document in its part; the shares of a part sum to 1."""
