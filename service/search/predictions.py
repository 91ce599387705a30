"""What all candidates of a search, shown or not, say about metadata fields."""

from typing import Any

from sqlalchemy import func, select

from index.generation.generation import Generation
from index.ranking.field_estimates import attention_without_null, predict
from index.ranking.search import Ranking
from service.runtime.runtime import Runtime
from service.storage.tables import Document


def predictions(runtime: Runtime, generation: Generation, ranking: Ranking, fields: list[str]) -> dict[str, Any]:
    """Return the prediction of each field; a document deleted since this generation was published has no say."""
    rows = generation.rows[ranking.doc_indices].tolist()
    metadata = _metadata(runtime, rows)
    present = [at for at, row in enumerate(rows) if row in metadata]
    weights = attention_without_null(ranking.weights[present], ranking.logits[present])
    documents = [metadata[rows[at]] for at in present]
    return {field: predict(weights, [one.get(field) for one in documents]) for field in fields}


def _metadata(runtime: Runtime, rows: list[int]) -> dict[int, dict[str, Any]]:
    table = Document.__table__.c
    listed = func.json_each(str(rows)).table_valued("value")  # one parameter, however many rows
    wanted = select(table.row, table.metadata).where(table.row.in_(select(listed.c.value)))
    with runtime.database.read() as connection:
        return {row.row: row.metadata for row in connection.execute(wanted)}
