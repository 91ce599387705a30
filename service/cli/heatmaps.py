"""The arrays of heatmaps with their labels, from answers of the service. `drawing` draws them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from service.cli import show

RANKS = 10
"""Ranks whose weights are drawn for each query."""
LABEL_CHARACTERS = 28
"""Characters of a title or of a part of a text in a label."""


@dataclass(frozen=True)
class Heatmap:
    """A matrix to draw. cells: a list for each row, with a number for each column.

    signed: whether the colours are symmetric around 0; otherwise they begin at 0. decimals: digits of a shown number.
    largest: the number with the strongest colour; None: the largest of the cells. Heatmaps beside each other share it.
    """

    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    cells: Sequence[Sequence[float]]
    signed: bool = True
    decimals: int = 2
    largest: float | None = None

    @property
    def is_empty(self) -> bool:
        """Whether the matrix has no cell."""
        return not (self.rows and self.columns)


def of_search(answer: Mapping[str, Any]) -> list[Heatmap]:
    """Return the heatmaps of an answer to a search with `"explain": "matrix"`, without those that have no cell."""
    hits = {hit["id"]: hit for hit in answer["hits"]}
    matrix = answer["matrix"]
    found = [_words(matrix["words_by_keys"], hits)] if "words_by_keys" in matrix else []
    return [one for one in [*found, _parts(matrix["parts_by_documents"], hits)] if not one.is_empty]


def of_run(answer: Mapping[str, Any]) -> list[Heatmap]:
    """Return a heatmap for the model before a run and for its model: a row for each held-out query.

    A row has the weights by rank and the weight of no answer. Both heatmaps have the same colours. Without a query
    there is no heatmap.
    """
    queries = answer["queries"]
    largest = max((cell for one in queries for name in ("before", "after") for cell in one[name]), default=0.0)
    columns = [*(f"rank {rank}" for rank in range(1, RANKS + 1)), "no answer"]
    rows = [shortened(one["q"]) for one in queries]
    found = [
        Heatmap(
            f"{name}: model {answer[name]}, held-out queries",
            rows,
            columns,
            [one[name] for one in queries],
            signed=False,
            largest=largest,
        )
        for name in ("before", "after")
    ]
    return [one for one in found if not one.is_empty]


def _words(matrix: Mapping[str, Any], hits: Mapping[str, Mapping[str, Any]]) -> Heatmap:
    columns = [f"{_key(key, hits[key['id']])}  cosine {key['cosine']:.2f}" for key in matrix["keys"]]
    title = "Words by keys: cosine of the whole query minus cosine without the word"
    title += f"; {matrix['words_left_out']} words left out" if matrix["words_left_out"] else ""
    return Heatmap(title, [word["word"] for word in matrix["words"]], columns, matrix["cells"])


def _parts(matrix: Mapping[str, Any], hits: Mapping[str, Mapping[str, Any]]) -> Heatmap:
    columns = [f"{_document(hits[one['id']])}  logit {one['logit']:.2f}" for one in matrix["documents"]]
    return Heatmap("Parts by documents: the parts of each logit", matrix["parts"], columns, matrix["cells"])


def _document(hit: Mapping[str, Any]) -> str:
    return f"{hit['position']}. {shortened(hit.get('title') or hit['id'])}"


def _key(key: Mapping[str, Any], hit: Mapping[str, Any]) -> str:
    if key["kind"] == "title":
        return f"{_document(hit)}  title"
    part = str(hit.get("text") or "")[key["start"] : key["end"]]
    return f"{hit['position']}. {key['kind']} “{shortened(part)}”"


def shortened(text: str) -> str:
    """Return the beginning of a text on one line."""
    line = show.plain(text)
    return line if len(line) <= LABEL_CHARACTERS else f"{line[: LABEL_CHARACTERS - 1]}…"
