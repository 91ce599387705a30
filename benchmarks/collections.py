"""Test collections in BEIR's layout, and their ingestion into a service."""

import csv
import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from sqlalchemy import select

from index.encoding.encoder import Encoder
from service.documents.acceptance import accept
from service.documents.indexing import make_searchable
from service.feedback.actions import take_judgments
from service.runtime.collection import CollectionState
from service.runtime.collection_settings import CollectionSettings
from service.runtime.runtime import Runtime
from service.settings import Settings
from service.storage.tables import DOCUMENTS

BATCH = 1000
MAX_RATING = 4


@dataclass(frozen=True)
class TestSet:
    """A corpus with queries and judgments. Training uses the train split; reports use the test split."""

    __test__: ClassVar[bool] = False
    """pytest collects classes whose names begin with Test."""
    name: str
    documents: list[dict[str, Any]]
    queries: dict[str, str]
    train: dict[str, dict[str, int]]
    test: dict[str, dict[str, int]]


def read_set(folder: Path) -> TestSet:
    """Read corpus.jsonl, queries.jsonl, qrels/train.tsv and qrels/test.tsv."""
    with (folder / "corpus.jsonl").open(encoding="utf-8") as lines:
        documents = [_document(json.loads(line)) for line in lines]
    with (folder / "queries.jsonl").open(encoding="utf-8") as lines:
        queries = {one["_id"]: one["text"] for one in map(json.loads, lines)}
    train, test = (_qrels(folder / "qrels" / f"{part}.tsv") for part in ("train", "test"))
    return TestSet(folder.name, documents, queries, train, test)


def _document(line: dict[str, Any]) -> dict[str, Any]:
    return {"id": line["_id"], "title": (line.get("title") or "")[:2000] or None, "text": line["text"]}


def _qrels(path: Path) -> dict[str, dict[str, int]]:
    qrels: dict[str, dict[str, int]] = {}
    with path.open(encoding="utf-8") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            qrels.setdefault(row["query-id"], {})[row["corpus-id"]] = int(float(row["score"]))
    return {query: grades for query, grades in qrels.items() if any(grade > 0 for grade in grades.values())}


@contextmanager
def opened(
    one: TestSet, encoder: Encoder, keys: Sequence[str], filterable: Sequence[str] = ()
) -> Iterator[tuple[Runtime, CollectionState]]:
    """Yield a temporary service with a collection of the set's documents, with these kinds of keys and fields."""
    with tempfile.TemporaryDirectory() as folder:
        runtime = Runtime.open(Settings(data=Path(folder)), encoder)
        try:
            state = runtime.create_collection("set", CollectionSettings(keys=list(keys), filterable=list(filterable)))
            ingest(runtime, state, one.documents)
            yield runtime, state
        finally:
            runtime.close()


def document_ids(runtime: Runtime, state: CollectionState) -> dict[int, str]:
    """Return row -> id of every document."""
    wanted = select(DOCUMENTS.c.row, DOCUMENTS.c.id).where(DOCUMENTS.c.collection_id == state.id)
    with runtime.database.read() as connection:
        return {row.row: row.id for row in connection.execute(wanted)}


def ingest(runtime: Runtime, state: CollectionState, documents: list[dict[str, Any]]) -> None:
    """Post documents as the service's own ingestion does, and make them searchable."""
    for start in range(0, len(documents), BATCH):
        accepted = accept(runtime, state, documents[start : start + BATCH])
        make_searchable(runtime, state, accepted.sequences)


def post_train_judgments(runtime: Runtime, state: CollectionState, one: TestSet) -> None:
    """Post the train split as judgments."""
    judgments = [
        {"query": one.queries[query], "document_id": document, "rating": min(MAX_RATING, grade), "rater": "train"}
        for query, grades in one.train.items()
        for document, grade in grades.items()
    ]
    for start in range(0, len(judgments), BATCH):
        answer = take_judgments(runtime, state, judgments[start : start + BATCH])
        assert not answer["rejected"], answer["rejected"][:3]
