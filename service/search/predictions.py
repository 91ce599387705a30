"""Predicts metadata fields from all candidates of a search, including candidates that are not shown."""

from collections.abc import Mapping, Sequence
from typing import Any

from index.generation.generation import Generation
from index.ranking.field_estimates import attention_without_null, predict
from index.ranking.search import Ranking
from service.runtime.search_runtime import SearchRuntime
from service.search import repository


def predictions(runtime: SearchRuntime, generation: Generation, ranking: Ranking, fields: list[str]) -> dict[str, Any]:
    """Return the prediction of each field. Documents deleted since the generation was published are ignored."""
    rows = generation.rows[ranking.doc_indices].tolist()
    with runtime.database.read() as connection:
        metadata = repository.metadata(connection, rows)
    return predicted(ranking, rows, metadata, fields)


def predicted(
    ranking: Ranking, rows: Sequence[int], metadata: Mapping[int, Mapping[str, Any]], fields: list[str]
) -> dict[str, Any]:
    """Return the prediction of each field. rows (N,): of the candidates; metadata: row -> fields of the document."""
    present = [at for at, row in enumerate(rows) if row in metadata]
    weights = attention_without_null(ranking.weights[present], ranking.logits[present])
    documents = [metadata[rows[at]] for at in present]
    return {field: predict(weights, [document.get(field) for document in documents]) for field in fields}
